"""Tasks: what one pass of a micro-batch through one chunk is, as rows to be tiled.

A task's rows depend on rows of the same task, and on rows of other tasks of the same micro-batch:
a backward on its forward, a weight pass on its backward, a chunk on the chunk before it on this rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.workloads.layers import Block, BlockNode
from chakrakit.workloads.program.tables import COLUMNS, NodeColumns, TextTables, picked, table_of

OWN, FORWARD, BACKWARD, BEFORE = range(4)
"""Where an edge of a task comes from: the task itself, its forward, its backward, the chunk before."""


@dataclass(frozen=True)
class Link:
    """How a chunk gets its input (or gradient), or hands on its output.

    `stage` is the peer's, or None for a chunk on the same rank; `size` the bytes of the message.
    """

    stage: int | None
    size: int


@dataclass(eq=False)
class Template:
    """Rows of a task and the edges into them: for each source, pairs (row in the source, row here)."""

    columns: dict[str, I64]
    edges: dict[int, I64]
    control: I64
    """Pairs of rows of this task where only the order counts."""
    end: int
    """The row that makes the output (or the input's gradient)."""
    grads: list[dict[int, int]] = field(default_factory=list)
    """For each block, backward list place → row."""

    def __len__(self) -> int:
        return len(self.columns["op"])


class _Builder:
    """Puts parts one after another."""

    def __init__(self) -> None:
        self.parts: list[dict[str, I64]] = []
        self.size = 0
        self.edges: dict[int, list[I64]] = {s: [] for s in (OWN, FORWARD, BACKWARD, BEFORE)}
        self.control: list[I64] = []

    def add(self, table: NodeColumns, layer: int) -> int:
        """Appends a table's rows; returns where they start."""
        start = self.size
        columns = dict(table.columns)
        columns["layer"] = np.full(len(table), layer)
        self.parts.append(columns)
        self.size += len(table)
        self.edges[OWN].append(table.deps + start)
        return start

    def wait(self, source: int, row: int, rows: I64) -> None:
        """Rows wait for one row of a source."""
        self.edges[source].append(np.stack([np.full(len(rows), row), rows], axis=1))

    def build(self, end: int, grads: list[dict[int, int]]) -> Template:
        columns = {c: _joined([p[c] for p in self.parts]) for c in COLUMNS}
        edges = {s: joined_pairs(parts) for s, parts in self.edges.items()}
        return Template(columns, edges, joined_pairs(self.control), end, grads)


def _joined(parts: Sequence[I64]) -> I64:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def joined_pairs(parts: Sequence[I64]) -> I64:
    """Pairs of rows from all parts, one after another."""
    return np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)


@dataclass(eq=False)
class BlockTables:
    """A block's tables: forward, whole backward, and backward in two halves."""

    block: Block
    forward: NodeColumns
    backward: NodeColumns
    halves: tuple[NodeColumns, NodeColumns]
    places: tuple[I64, I64]

    @classmethod
    def of(cls, block: Block, book: TextTables) -> BlockTables:
        """All tables of a block."""
        forward = table_of(block.forward, book, "forward")
        backward = table_of(block.backward, book, "backward")
        late = _late(block.backward)
        (inputs, place_i), (weights, place_w) = picked(backward, ~late), picked(backward, late)
        return cls(block, forward, backward, (inputs, weights), (place_i, place_w))


def _late(nodes: Sequence[BlockNode]) -> Mask:
    return np.array([n.weight for n in nodes], np.bool_)


@dataclass(eq=False)
class Chunk:
    """Blocks a stage runs one after another, with their layer numbers, and its links outside."""

    blocks: list[BlockTables]
    layers: list[int]
    source: Link | None
    sink: Link | None
    prefetch: int
    book: TextTables
    offsets: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    arrived: int | None = None

    def forward(self) -> Template:
        """F: receive, every block, send."""
        out = _Builder()
        arrived = self._receive(out, self.source, "forward", "recv_forward")
        ends: list[int] = []
        for tables, layer in zip(self.blocks, self.layers, strict=True):
            start = out.add(tables.forward, layer)
            self.offsets.append(start)
            self._wait_input(out, tables.forward, start, ends, arrived, self.source)
            self._prefetch(out, tables.forward, start, ends)
            ends.append(start + tables.block.forward_end)
        self._send(out, self.sink, ends[-1], "forward", "send_forward")
        return out.build(ends[-1], [])

    def backward(self, half: str = "B") -> Template:
        """B or I: receive the gradient, every block from the last, send the input's gradient."""
        out = _Builder()
        arrived = self._receive(out, self.sink, "backward", "recv_backward")
        ends: list[int] = []
        grads: list[dict[int, int]] = [{} for _ in self.blocks]
        self.inner = [0] * len(self.blocks)
        for b in reversed(range(len(self.blocks))):
            tables = self.blocks[b]
            table = tables.backward if half == "B" else tables.halves[0]
            start = out.add(table, self.layers[b])
            self.inner[b] = start
            self._wait_input(out, table, start, ends, arrived, self.sink)
            self._prefetch(out, table, start, ends)
            saved = table.saved + np.array([[self.offsets[b], start]])
            out.edges[FORWARD].append(saved)
            place = np.arange(len(table)) if half == "B" else tables.places[0]
            grads[b] = {i: int(p) + start for i, p in enumerate(place) if p >= 0}
            if tables.block.backward_end >= 0:
                ends.append(grads[b][tables.block.backward_end])
        self.ends, self.arrived = ends, arrived
        if self.source is not None and ends:
            self._send(out, self.source, ends[-1], "backward", "send_backward")
        return out.build(ends[-1] if ends else out.size - 1, grads)

    def weights(self) -> Template:
        """W: the weights' gradients of every block, after an I of the same micro-batch."""
        out = _Builder()
        grads: list[dict[int, int]] = [{} for _ in self.blocks]
        for b in reversed(range(len(self.blocks))):
            tables = self.blocks[b]
            table, place = tables.halves[1], tables.places[1]
            start = out.add(table, self.layers[b])
            self._wait_halves(out, tables, b, start)
            out.edges[FORWARD].append(table.saved + np.array([[self.offsets[b], start]]))
            self._wait_gradient(out, table, start, [e for e in self.ends if e < self.inner[b]])
            grads[b] = {i: int(p) + start for i, p in enumerate(place) if p >= 0}
        return out.build(out.size - 1, grads)

    def _wait_halves(self, out: _Builder, tables: BlockTables, b: int, start: int) -> None:
        """Rows of the second half wait for rows of the first, which are in another task."""
        first, second = tables.places
        pairs = tables.backward.deps
        cross = (first[pairs[:, 0]] >= 0) & (second[pairs[:, 1]] >= 0)
        edges = np.stack(
            [first[pairs[cross, 0]] + self.inner[b], second[pairs[cross, 1]] + start], axis=1
        )
        out.edges[BACKWARD].append(edges)

    def _wait_gradient(
        self, out: _Builder, table: NodeColumns, start: int, after: list[int]
    ) -> None:
        rows = table.inputs + start
        if after:
            out.wait(BACKWARD, max(after), rows)
        elif self.arrived is not None:
            out.wait(BACKWARD, self.arrived, rows)

    def _wait_input(
        self,
        out: _Builder,
        table: NodeColumns,
        start: int,
        ends: list[int],
        arrived: int | None,
        link: Link | None,
    ) -> None:
        rows = table.inputs + start
        if ends:
            out.wait(OWN, ends[-1], rows)
        elif arrived is not None:
            out.wait(OWN, arrived, rows)
        elif link is not None:
            out.wait(BEFORE, -1, rows)  # the end of the task before it, wherever that is

    def _prefetch(self, out: _Builder, table: NodeColumns, start: int, ends: list[int]) -> None:
        """A gather starts once the block `prefetch` + 1 places earlier is done."""
        if len(table) == 0 or self.book.names.texts[table.columns["name"][0]][-7:] != ".gather":
            return
        if len(ends) > self.prefetch:
            out.control.append(np.array([[ends[-1 - self.prefetch], start]]))

    def _receive(self, out: _Builder, link: Link | None, phase: str, name: str) -> int | None:
        if link is None or link.stage is None:
            return None
        return self._message(out, "recv", link, phase, name, [])

    def _send(self, out: _Builder, link: Link | None, after: int, phase: str, name: str) -> None:
        if link is not None and link.stage is not None:
            self._message(out, "send", link, phase, name, [after])

    def _message(
        self, out: _Builder, op: str, link: Link, phase: str, name: str, deps: list[int]
    ) -> int:
        node = BlockNode(name, op, comm_size=link.size, out_size=link.size, role=f"pp:{link.stage}")
        start = out.add(table_of([node], self.book, phase), -1)
        for row in deps:
            out.wait(OWN, row, np.array([start]))
        return start
