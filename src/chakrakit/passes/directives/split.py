"""Split: micro-batches cut into smaller ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from chakrakit.errors import ConfigError
from chakrakit.operators import element_bytes
from chakrakit.passes.base import Pass, map_bodies
from chakrakit.passes.directives.draft import Draft, DraftRow, Edge, shapes_of
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class SplitBatch(Pass):
    """Cut every micro-batch of a global trace into `ways` smaller ones, one after the other.

    Work and activations are shared out evenly; each smaller micro-batch reads all weights again.
    """

    name: ClassVar[str] = "split"
    preserves: ClassVar[str] = "the operations of the step; bytes of weights are read more often"
    ways: int = 2

    def __post_init__(self) -> None:
        if self.ways < 2:
            raise ConfigError(f"ways={self.ways}: two or more are needed")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with more, smaller micro-batches."""
        if len(traces.ranks) != 1:
            raise ConfigError(
                "split wants a global trace of one rank; use it before place and replicate"
            )
        return map_bodies(traces, self._split)

    def _split(self, trace: Trace) -> Trace:
        draft = Draft(trace)
        batches: dict[int, list[DraftRow]] = {}
        for row in draft.rows:
            if row.get("micro_batch") is not None:
                batches.setdefault(int(row["micro_batch"]), []).append(row)
        copies = {row: self._copies(row) for rows in batches.values() for row in rows}
        tail = [r for r in draft.rows if r not in copies]
        ends = set(tail)
        inside = [
            e for e in draft.edges if e[0] in copies and e[1] in copies and e[2] != EdgeKind.CTRL
        ]
        after: list[Edge] = [
            (copies[e[0]][-1] if e[0] in copies else e[0], *e[1:])
            for e in draft.edges
            if e[1] in ends
        ]
        within: list[Edge] = [
            (copies[e[0]][way], copies[e[1]][way], *e[2:])
            for way in range(self.ways)
            for e in inside
        ]
        draft.edges = [*within, *after]
        draft.rows = [
            copies[row][way]
            for rows in batches.values()
            for way in range(self.ways)
            for row in rows
        ] + tail
        draft.in_order()
        return draft.trace()

    def _copies(self, row: DraftRow) -> list[DraftRow]:
        """The row once for each smaller micro-batch, with its part of the work."""
        changed = dict(row)
        for column in ("num_ops", "mem_alloc", "mem_free"):
            if row.get(column) is not None:
                changed[column] = row[column] // self.ways
        if row.get("tensor_size") is not None:
            fixed = min(_weight_bytes(row), row["tensor_size"])
            changed["tensor_size"] = fixed + (row["tensor_size"] - fixed) // self.ways
        if row.get("inputs_shapes"):
            changed["inputs_shapes"] = self._shapes(row)
        return [
            DraftRow({**changed, "micro_batch": row["micro_batch"] * self.ways + way})
            for way in range(self.ways)
        ]

    def _shapes(self, row: DraftRow) -> str:
        """The operands' shapes with a part of the tokens of a product, or of the sequences of attention."""
        shapes = shapes_of(row)
        if row["op_type"] != "matmul":
            return _text([[s[0] // self.ways, *s[1:]] for s in shapes])
        if row["phase"] == "weight":
            return _text(
                [
                    [shapes[0][0], shapes[0][1] // self.ways],
                    [shapes[1][0] // self.ways, shapes[1][1]],
                ]
            )
        return _text([[shapes[0][0] // self.ways, *shapes[0][1:]], *shapes[1:]])

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Micro-batches now."""
        return {"micro_batches": 1 + int(after.body_at(0).column("micro_batch", -1).max())}


def _weight_bytes(row: DraftRow) -> int:
    """Bytes of a product that do not become fewer with its tokens: its weight, or the gradient of one."""
    if row.get("op_type") != "matmul" or not row.get("inputs_shapes"):
        return 0
    first, second = shapes_of(row)[:2]
    count = first[0] * second[1] if row["phase"] == "weight" else prod(second)
    return int(count * element_bytes(row["dtype"]))


def _text(shapes: list[list[int]]) -> str:
    return "[" + ",".join("[" + ",".join(map(str, s)) + "]" for s in shapes) + "]"
