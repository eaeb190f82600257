"""What a capture amounts to, for people and for `--json`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chakrakit.results import Result
from chakrakit.sources.capture.folding.bodies import collective_name
from chakrakit.sources.capture.folding.families import Families
from chakrakit.sources.capture.folding.kinds import Kind
from chakrakit.sources.capture.recording import Signature


class KindFigures(msgspec.Struct, frozen=True):
    """Ranks that run the same program, and what each of them does in the captured steps."""

    ranks: int
    nodes: int
    flops: int
    """Of matrix products, convolutions and attention, as `chakra generate` counts them."""
    parameters: int
    """Of the modules that ran; a sharded parameter counts as a whole."""
    peak_bytes: int


class CollectiveFigures(msgspec.Struct, frozen=True):
    """Collectives or messages of one type and group: totals of one rank over the captured steps."""

    type: str
    group: str
    count: int
    bytes: int


class CaptureReport(Result, msgspec.Struct, frozen=True):
    """The result of `chakra capture`."""

    ranks: int
    kinds: list[KindFigures]
    collectives: list[CollectiveFigures]
    stubbed: list[str]
    warnings: list[str]


def report_of(kinds: Sequence[Kind], families: Families, warnings: Sequence[str]) -> CaptureReport:
    """Figures of every kind; a collective is that of the first kind that has it."""
    found: dict[tuple[str, str], CollectiveFigures] = {}
    for kind in kinds:
        for figures in _collectives(kind, families):
            found.setdefault((figures.type, figures.group), figures)
    told = [w for k in kinds for w in k.recording.warnings] + list(warnings)
    return CaptureReport(
        sum(len(k.ranks) for k in kinds),
        [_figures(k) for k in kinds],
        [found[key] for key in sorted(found)],
        sorted({s for k in kinds for s in k.recording.stubbed}),
        list(dict.fromkeys(told)),
    )


def _figures(kind: Kind) -> KindFigures:
    made = kind.recording
    flops = sum(_model_flops(made.signatures[op.signature]) for op in made.ops)
    return KindFigures(len(kind.ranks), len(made.ops), flops, made.parameters, made.peak_bytes)


def _model_flops(signature: Signature) -> int:
    """Matrix work of the model; a fused attention's backward makes the scores once more by itself."""
    fused = "attention" in signature.name and signature.name.endswith("_backward")
    return signature.flops * 4 // 5 if fused else signature.flops


def _collectives(kind: Kind, families: Families) -> list[CollectiveFigures]:
    made = kind.recording
    homes = families.of_recorded(made.groups)
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for op in made.ops:
        if op.comm >= 0:
            comm = made.comms[op.comm]
            family = homes.get(comm.group)
            key = (collective_name(comm.kind), comm.group if family is None else family.role)
            count, size = totals.get(key, (0, 0))
            totals[key] = (count + 1, size + comm.in_bytes)
    return [CollectiveFigures(*key, *total) for key, total in totals.items()]
