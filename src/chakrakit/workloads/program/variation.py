"""Ranks that differ: documents of many lengths, and tokens that favour some experts. Seeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.program.layout import WorkloadLayout
from chakrakit.workloads.program.program import StageProgram
from chakrakit.workloads.samples import has_documents, packed_documents


@dataclass(frozen=True, eq=False)
class Variant:
    """Ranks of a stage that do the same: `data` and `expert` are coordinates, or -1 for all alike."""

    name: str
    ranks: I64
    data: int = -1
    expert: int = -1


def variants(layout: WorkloadLayout, stage: int, lanes: Sequence[int] = ()) -> Iterator[Variant]:
    """The ranks of a stage by what they do, lowest rank first; of `lanes`, coordinates `data`, where some."""
    step, mesh = layout.workload.step, layout.mesh
    ranks = mesh.ranks_at(stage)
    if lanes:
        ranks = ranks[np.isin(mesh.coordinates["data"][ranks], lanes)]
    documents = (
        has_documents(step)
        and getattr(layout.workload.model, "kernel", "") == "flash"
        and layout.workload.plan.context != "blocks"
    )
    data = mesh.coordinates["dp"][ranks] if documents else np.full(len(ranks), -1)
    skewed = step.imbalance > 0 and layout.workload.plan.ep > 1
    expert = mesh.coordinates["ep"][ranks] if skewed else np.full(len(ranks), -1)
    group = mesh.coordinates["edp"][ranks] if skewed else np.full(len(ranks), -1)
    keys = np.stack([data, expert, group])
    for key in np.unique(keys, axis=1).T:
        mine = ranks[(keys == key[:, None]).all(axis=0)]
        labels = [f"{n}{k}" for n, k in zip(("dp", "ep", "edp"), key, strict=True) if k >= 0]
        yield Variant(
            " ".join([f"stage {stage}", *labels]), mine, int(key[0]), _expert_key(key, layout)
        )


def _expert_key(key: I64, layout: WorkloadLayout) -> int:
    return int(key[2] * layout.workload.plan.ep + key[1]) if key[1] >= 0 else -1


def varied(layout: WorkloadLayout, program: StageProgram, variant: Variant) -> StageProgram:
    """The program as a variant runs it: attention by its documents, experts by their tokens."""
    if variant.data < 0 and variant.expert < 0:
        return program
    columns = dict(program.columns)
    if variant.data >= 0:
        _scale(columns, ("flops",), columns["core"] > 0, _document_share(layout, variant, columns))
    if variant.expert >= 0:
        share = _expert_share(layout, variant, columns)
        routed = columns["routed"] > 0
        _scale(
            columns, ("flops", "vector_ops", "bytes", "alloc", "free", "comm_size"), routed, share
        )
        exchange = (columns["comm"] == CollectiveType.ALL_TO_ALL) & ~routed
        _scale(columns, ("out_size",), exchange, share)
    return replace(program, columns=columns)


def _scale(columns: dict[str, I64], names: tuple[str, ...], rows: Mask, by: F64) -> None:
    for name in names:
        scaled = columns[name].copy()
        scaled[rows] = np.rint(scaled[rows] * by[rows]).astype(np.int64)
        columns[name] = scaled


def _document_share(layout: WorkloadLayout, variant: Variant, columns: dict[str, I64]) -> F64:
    """For each row, the square of its documents' lengths against one document of the whole sequence."""
    step = layout.workload.step
    shares = np.empty(len(layout.drawn_as()))
    for m, drawn in enumerate(layout.drawn_as()):
        squares = [(d**2).sum() for d in packed_documents(step, variant.data, drawn)]
        shares[m] = sum(squares) / (step.micro_batch * step.seq**2)
    return shares[np.maximum(columns["micro_batch"], 0)]


def _expert_share(layout: WorkloadLayout, variant: Variant, columns: dict[str, I64]) -> F64:
    """For each row, the tokens this rank's experts get against an even share.

    All ranks of an expert group draw the same numbers, so that their shares add up.
    """
    step, plan = layout.workload.step, layout.workload.plan
    group, place = divmod(variant.expert, plan.ep)
    layers = int(columns["layer"].max()) + 1 if len(columns["layer"]) else 1
    even = step.micro_batch * step.seq * getattr(layout.workload.model, "top_k", 1) // plan.cp
    shares = np.ones((layers + 1, len(layout.drawn_as())))
    for layer in range(layers):
        for m, number in enumerate(layout.drawn_as()):
            rng = np.random.default_rng((step.seed, 2, group, layer, number))
            drawn = rng.gamma(1 / step.imbalance**2, size=plan.ep)
            if not drawn.any():  # so uneven that all shares were too small for a float
                drawn[rng.integers(plan.ep)] = 1.0
            shares[layer, m] = _whole_tokens(drawn, even)[place] / even
    return shares[columns["layer"], np.maximum(columns["micro_batch"], 0)]


def _whole_tokens(drawn: F64, even: int) -> F64:
    """Shares as whole tokens that add up; what rounding leaves goes to the first ranks."""
    tokens: F64 = np.floor(drawn / drawn.sum() * even * len(drawn))
    tokens[: int(even * len(drawn) - tokens.sum())] += 1
    return tokens
