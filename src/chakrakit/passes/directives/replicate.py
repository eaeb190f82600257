"""Replicate: copies of every rank, which share the micro-batches and sum their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass
from chakrakit.passes.directives.draft import REDUCE, Draft, DraftRow
from chakrakit.passes.directives.weights import BlockWeights, blocks_of
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import model_state, with_model_state
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import TraceSet

GRADIENT_BYTES = 4
"""Gradients are kept and reduced in fp32."""
BUCKET_BYTES = 25 << 20
"""Of PyTorch's DistributedDataParallel, and of generated traces."""


@dataclass(frozen=True)
class Replicate(Pass):
    """Copy every rank of a global trace, and sum gradients over the copies.

    Each of `ranks` replicas runs its part of the micro-batches, which must divide. Gradients are all-reduced
    in buckets, from the last weights to the first; a bucket is closed when it has `bucket_mb` MiB. The loss
    is averaged, and with several stages the norm of gradients is summed over them.
    """

    name: ClassVar[str] = "replicate"
    preserves: ClassVar[str] = (
        "all work of the step, spread over the replicas; collectives are added"
    )
    ranks: int = 2
    bucket_mb: float = 25.0

    def __post_init__(self) -> None:
        if self.ranks < 2:
            raise ConfigError(f"ranks={self.ranks}: a replica more than one is needed")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces of all replicas, which share the bodies of their stages."""
        if traces.body_count != len(traces.ranks) or any(
            b.groups for b in traces.bindings.values()
        ):
            raise ConfigError(
                "the trace has groups already; replicate a global trace, or its stages, once"
            )
        stages = len(traces.ranks)
        bodies = [self._body(traces.body_at(s), s, stages) for s in range(stages)]
        groups: dict[str, list[int]] = {}
        for s in range(stages):
            groups[f"dp{s}"] = [s * self.ranks + r for r in range(self.ranks)]
        for r in range(self.ranks):
            groups[f"mp{r}"] = [s * self.ranks + r for s in range(stages)]
        groups["world"] = list(range(stages * self.ranks))
        bindings = {
            s * self.ranks + r: self._binding(s, r, stages)
            for s in range(stages)
            for r in range(self.ranks)
        }
        return TraceSet(bodies, bindings, Groups(groups), traces.card)

    def _binding(self, stage: int, replica: int, stages: int) -> Binding:
        own = {"dp": f"dp{stage}", "mp": f"mp{replica}", "world": "world"}
        peers = {s * self.ranks: s * self.ranks + replica for s in range(stages)} if replica else {}
        return Binding(stage, own, peers if stages > 1 else {})

    def _body(self, body: Trace, stage: int, stages: int) -> Trace:
        draft = Draft(body)
        _keep_share(draft, self.ranks)
        for row in draft.rows:
            for end in ("comm_src", "comm_dst"):
                if row.get(end) is not None:
                    row[end] *= self.ranks
        blocks = blocks_of(draft)
        gates = list(reduced(draft, blocks, self.bucket_mb * 2**20))
        if stage == stages - 1:
            averaged_loss(draft, blocks)
        if stages > 1:
            gates = [summed_norm(draft, blocks, gates, "mp")]
        gate_updates(draft, blocks, gates)
        draft.in_order()
        whole = [msgspec.structs.replace(part, role="") for part in model_state(body)]
        return with_model_state(draft.trace(), whole)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many ranks there are, and the bytes that a rank of the first stage reduces."""
        reduced_bytes = after.body_at(0).column("comm_size", 0)[
            after.body_at(0).column("comm_type", -1) >= 0
        ]
        return {"ranks": len(after.ranks), "reduced_bytes": int(reduced_bytes.sum())}


def _keep_share(draft: Draft, ranks: int) -> None:
    """The last of the micro-batches, whose gradients the optimizer waits for, numbered from 0 again."""
    count = 1 + max(
        (r["micro_batch"] for r in draft.rows if r.get("micro_batch") is not None), default=-1
    )
    if count % ranks:
        raise ConfigError(
            f"{count} micro-batches are not shared evenly by {ranks} replicas; split first"
        )
    first = count - count // ranks
    draft.keep(lambda r: r.get("micro_batch") is None or r["micro_batch"] >= first)
    for row in draft.rows:
        if row.get("micro_batch") is not None:
            row["micro_batch"] -= first


def buckets(blocks: list[BlockWeights], limit: float) -> Iterator[list[tuple[list[DraftRow], int]]]:
    """Weights from the last to the first: the rows that make a gradient, and its elements.

    A bucket is closed when it is full.
    """
    weights = [
        (b.gradient(number), b.elements[number])
        for b in reversed(blocks)
        for number in reversed(range(len(b.elements)))
    ]
    bucket: list[tuple[list[DraftRow], int]] = []
    for weight in weights:
        bucket.append(weight)
        if sum(count for _, count in bucket) * GRADIENT_BYTES >= limit:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def collective(
    draft: Draft, blocks: list[BlockWeights], name: str, kind: CollectiveType, sizes: tuple[int, int],
    group: str, dtype: str = "fp32", phase: str = "sync", stream: int = REDUCE,
) -> DraftRow:  # fmt: skip
    """A collective before the first update, with the bytes that go in and come out."""
    row = draft.row(
        name=name,
        type=int(NodeType.COMM_COLL_NODE),
        comm_type=int(kind),
        comm_size=sizes[0],
        out_size=sizes[1],
        comm_dtype=dtype,
        pg_name=group,
        stream=stream,
        phase=phase,
    )
    draft.rows.insert(draft.rows.index(blocks[0].update), row)
    return row


def reduced(draft: Draft, blocks: list[BlockWeights], limit: float) -> Iterator[DraftRow]:
    """An all-reduce for every bucket, once its gradients are complete."""
    for number, bucket in enumerate(buckets(blocks, limit)):
        size = sum(count for _, count in bucket) * GRADIENT_BYTES
        name = f"gradients.dp.{number}"
        row = collective(draft, blocks, name, CollectiveType.ALL_REDUCE, (size, size), "dp")
        draft.wait(row, (g for rows, _ in bucket for g in rows))
        yield row


def averaged_loss(draft: Draft, blocks: list[BlockWeights]) -> None:
    """The loss over all replicas, for the log."""
    size = (GRADIENT_BYTES, GRADIENT_BYTES)
    row = collective(draft, blocks, "loss", CollectiveType.ALL_REDUCE, size, "dp")
    draft.wait(row, blocks[-1].gradients)


def summed_norm(
    draft: Draft, blocks: list[BlockWeights], gates: list[DraftRow], group: str
) -> DraftRow:
    """The norm of gradients over ranks that have different ones."""
    size = (GRADIENT_BYTES, GRADIENT_BYTES)
    row = collective(draft, blocks, "clip", CollectiveType.ALL_REDUCE, size, group)
    draft.wait(row, [*gates, *(g for b in blocks for g in b.gradients)])
    return row


def gate_updates(draft: Draft, blocks: list[BlockWeights], gates: list[DraftRow]) -> None:
    """No weight is updated before its gradients are complete."""
    for block in blocks:
        draft.wait(block.update, gates)
