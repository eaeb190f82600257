"""Shard: replicas keep a part each of the optimizer, the gradients or the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.passes.base import Pass
from chakrakit.passes.directives.draft import GATHER, Draft, DraftRow
from chakrakit.passes.directives.replicate import (
    GRADIENT_BYTES,
    buckets,
    collective,
    gate_updates,
    summed_norm,
)
from chakrakit.passes.directives.weights import BlockWeights, blocks_of, stretches
from chakrakit.trace.memory import StatePart, model_state, with_model_state
from chakrakit.trace.model import CollectiveType, EdgeKind, NodeType, Trace
from chakrakit.trace.sets import TraceSet

PARAMETER_BYTES = 2
"""Parameters are gathered in bf16."""
_SHARDED: Mapping[str, tuple[str, ...]] = {
    "optimizer": ("optimizer",),
    "gradients": ("gradients", "optimizer"),
    "parameters": ("parameters", "gradients", "optimizer"),
}


@dataclass(frozen=True)
class Shard(Pass):
    """Let replicas keep a part each of the optimizer, of gradients too, or of parameters too (ZeRO-1, 2, 3).

    Gradients are scattered and not all-reduced; each rank updates its part, and parameters are gathered
    again after the update, or, where they are sharded themselves, before every block that uses them, with
    `prefetch` blocks ahead. Sharded gradients of several micro-batches are scattered after every one, block
    by block. `bucket_mb` is the size of a bucket of gradients; by default 40 million elements
    or a million for each rank, as Megatron has it.
    """

    name: ClassVar[str] = "shard"
    preserves: ClassVar[str] = (
        "the model's work; collectives are replaced, and optimizers do a part each"
    )
    what: Literal["optimizer", "gradients", "parameters"] = "optimizer"
    bucket_mb: float = 0.0
    prefetch: int = 1

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with shards; they must have been replicated."""
        bodies = []
        for body in range(traces.body_count):
            binding = next(b for b in traces.bindings.values() if b.body == body)
            if binding.groups.get("dp") not in traces.groups:
                raise ConfigError("there are no replicas to shard over; use replicate first")
            bodies.append(
                self._sharded(traces.body_at(body), len(traces.groups[binding.groups["dp"]]))
            )
        return TraceSet(bodies, traces.bindings, traces.groups, traces.card)

    def _sharded(self, body: Trace, ranks: int) -> Trace:
        draft = Draft(body)
        blocks = blocks_of(draft)
        draft.keep(
            lambda r: r.get("name") != "clip" and not str(r["name"]).startswith("gradients.")
        )
        losses = [r for r in draft.rows if r["name"] == "loss" and r.get("micro_batch") is None]
        draft.keep(lambda r: r not in losses)
        gates: list[DraftRow] = []
        if self.what == "parameters":
            _gathered_blocks(draft, blocks, ranks, self.prefetch)
        else:
            each = self.what == "gradients" and _scattered_blocks(draft, blocks, ranks)
            gates = self._scattered(draft, blocks, ranks, reduced=each)
        at = draft.rows.index(blocks[0].update)
        draft.rows[at:at] = losses  # behind the gradients, which the update waits for
        for block in blocks:
            _update_part(block, ranks)
        gate_updates(draft, blocks, [summed_norm(draft, blocks, gates, "world")])
        draft.in_order()
        return with_model_state(draft.trace(), _state(body, self.what, ranks))

    def _scattered(
        self, draft: Draft, blocks: list[BlockWeights], ranks: int, reduced: bool
    ) -> list[DraftRow]:
        """Reduce-scatters of gradients before the update, unless done, and gathers of parameters after it."""
        limit = self.bucket_mb * 2**20 or GRADIENT_BYTES * max(40_000_000, 1_000_000 * ranks)
        gates = []
        for number, bucket in enumerate(buckets(blocks, limit)):
            count = sum(elements for _, elements in bucket)
            part = -(-count // ranks)
            if not reduced:
                sizes = (count * GRADIENT_BYTES, part * GRADIENT_BYTES)
                kind = CollectiveType.REDUCE_SCATTER
                row = collective(draft, blocks, f"gradients.dp.{number}", kind, sizes, "dp")
                draft.wait(row, (g for rows, _ in bucket for g in rows))
                gates.append(row)
            back = collective(
                draft, blocks, f"parameters.dp.{number}", CollectiveType.ALL_GATHER,
                (part * PARAMETER_BYTES, count * PARAMETER_BYTES), "dp", dtype="bf16",
                phase="optimizer", stream=GATHER,
            )  # fmt: skip
            draft.rows.remove(back)
            draft.rows.append(back)
            draft.wait(back, [blocks[-1].update])
        return gates

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The bytes that a rank gathers and scatters."""
        body = after.body_at(0)
        kinds, sizes = body.column("comm_type", -1), body.column("comm_size", 0)
        scatters = sizes[kinds == int(CollectiveType.REDUCE_SCATTER)].sum()
        gathers = sizes[kinds == int(CollectiveType.ALL_GATHER)].sum()
        return {"scattered_bytes": int(scatters), "gathered_bytes": int(gathers)}


def _update_part(block: BlockWeights, ranks: int) -> None:
    """An update of the rank's part of each weight; parts are rounded up."""
    mine = sum(-(-count // ranks) for count in block.elements)
    for column in ("num_ops", "tensor_size"):
        block.update[column] = block.update[column] // block.total * mine


def _gathered_blocks(draft: Draft, blocks: list[BlockWeights], ranks: int, prefetch: int) -> None:
    """Gathers before every block, forward and back, and scatters of gradients behind it."""
    rows_of = stretches(draft, len(blocks))
    stages: dict[tuple[int, bool], list[int]] = {}
    for batch, back, block in rows_of:
        stages.setdefault((batch, back), []).append(block)
    for (batch, back), order in stages.items():
        for turn, block in enumerate(order):
            rows = rows_of[batch, back, block]
            last = block == len(blocks) - 1
            ahead = turn - 1 - prefetch
            after = rows_of[batch, back, order[ahead]][-1] if ahead >= 0 else None
            if blocks[block].total and not (back and last):
                rows = [_gather(draft, blocks[block], rows, ranks, after), *rows]
            if back or not last:
                _free(rows, blocks[block].total * PARAMETER_BYTES, back)
            if back:
                _scatter(draft, blocks[block], rows, ranks)


def _scattered_blocks(draft: Draft, blocks: list[BlockWeights], ranks: int) -> bool:
    """Scatters of gradients behind every block where there are several micro-batches; whether there are."""
    rows_of = stretches(draft, len(blocks))
    if len({batch for batch, _, _ in rows_of}) == 1:
        return False
    for (_, back, block), rows in rows_of.items():
        if back and blocks[block].total:
            _scatter(draft, blocks[block], rows, ranks)
    return True


def _gather(
    draft: Draft, block: BlockWeights, rows: list[DraftRow], ranks: int, after: DraftRow | None
) -> DraftRow:
    """What had nothing to wait for within the block waits for its parameters."""
    inside = set(rows)
    waits = {
        e[1] for e in draft.edges if e[1] in inside and e[0] in inside and e[2] != EdgeKind.CTRL
    }
    part, whole = -(-block.total // ranks) * PARAMETER_BYTES, block.total * PARAMETER_BYTES
    row = _beside(
        draft, rows[0], "gather", CollectiveType.ALL_GATHER, (part, whole), "bf16", GATHER
    )
    row["mem_alloc"] = whole
    draft.rows.insert(draft.rows.index(rows[0]), row)
    for reader in (r for r in rows if r not in waits):
        draft.wait(reader, [row])
    if after is not None:
        draft.wait(row, [after])
    return row


def _free(rows: list[DraftRow], size: int, back: bool) -> None:
    """Gathered parameters are let go behind the last row that needs them; gradients of weights need none."""
    users = [r for r in rows if not back or r["phase"] != "weight"] or rows
    users[-1]["mem_free"] = (users[-1].get("mem_free") or 0) + size


def _scatter(draft: Draft, block: BlockWeights, rows: list[DraftRow], ranks: int) -> None:
    part, whole = -(-block.total // ranks) * GRADIENT_BYTES, block.total * GRADIENT_BYTES
    row = _beside(
        draft, rows[-1], "scatter", CollectiveType.REDUCE_SCATTER, (whole, part), "fp32", 5
    )
    row["phase"] = "weight"
    draft.rows.insert(draft.rows.index(rows[-1]) + 1, row)
    names = {g["name"] for g in block.gradients}
    draft.wait(row, [r for r in rows if r["name"] in names])
    if any(g in rows for g in block.gradients):
        draft.wait(block.update, [row])


def _beside(
    draft: Draft,
    row: DraftRow,
    name: str,
    kind: CollectiveType,
    sizes: tuple[int, int],
    dtype: str,
    stream: int,
) -> DraftRow:
    """A collective of the block that a row is in."""
    layer = row.get("layer")
    prefix = str(row["name"]).split(".")[0] if layer is None else f"layers.{layer}"
    return draft.row(
        name=f"{prefix}.{name}",
        type=int(NodeType.COMM_COLL_NODE),
        comm_type=int(kind),
        comm_size=sizes[0],
        out_size=sizes[1],
        comm_dtype=dtype,
        pg_name="dp",
        stream=stream,
        phase=row["phase"] if row["phase"] == "forward" else "backward",
        layer=layer,
        micro_batch=row["micro_batch"],
    )


def _state(body: Trace, what: str, ranks: int) -> list[StatePart]:
    """The model's state on a rank, with a part each of what is sharded."""
    parts = []
    for part in model_state(body):
        if part.kind in _SHARDED[what]:
            parts.append(msgspec.structs.replace(part, role="dp").resharded(ranks))
        else:
            parts.append(msgspec.structs.replace(part, role="", bytes=part.elements * part.width))
    return parts
