"""One task of each kind of some stages, and each stage's end, as rows of one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask, distinct_rows
from chakrakit.trace.model import Graph
from chakrakit.workloads.program import (
    COLUMNS,
    MESSAGES,
    OWN,
    Stage,
    StageProgram,
    Template,
    WorkloadLayout,
    step_end_nodes,
    streams_of,
    table_of,
)

BEFORE_INPUT, MAIN, AFTER_OUTPUT = range(3)
"""Segments of a task: before its input is used, from there to its output, and after the output."""
WORK = ("name", "op", "dtype", "shapes", "phase", "flops", "vector_ops", "bytes")
"""Columns that decide how long a row takes; a profile tells by name and phase how its operands lie."""


@dataclass(frozen=True)
class TaskBlock:
    """Rows of a stage's task, or of its last task with the step's end after it."""

    stage: int
    key: tuple[str, int]
    rows: slice
    task_rows: int
    """Rows that are the task's; those after it are the tail's."""
    is_tail: bool


class BlockRows:
    """Blocks one after another. `segment` numbers the three segments of each block."""

    def __init__(self, layout: WorkloadLayout, stages: Sequence[Stage]) -> None:
        self.layout, self.stages = layout, stages
        self.blocks: list[TaskBlock] = []
        self._parts: list[dict[str, I64]] = []
        self._pairs: list[I64] = []
        self._segments: list[I64] = []
        self._cuts: dict[tuple[int, tuple[str, int]], I64] = {}
        self._size = 0
        for s, stage in enumerate(stages):
            for key, template in stage.templates.items():
                self._cell(s, key, template)
        for s in range(len(stages)):
            self._tail(s)
        self.columns = {c: np.concatenate([p[c] for p in self._parts]) for c in COLUMNS}
        self.segment = np.concatenate(self._segments)
        self.streams = streams_of(layout, self.columns)
        self.ordered = np.arange(int(self.streams.max(initial=0)) + 1) < MESSAGES

    def __len__(self) -> int:
        return self._size

    def _op(self, name: str) -> Mask:
        return np.asarray(self.columns["op"] == self.layout.book.ops.number(name))

    @property
    def is_collective(self) -> Mask:
        """Rows that a group does together."""
        return self._op("collective")

    @property
    def is_compute(self) -> Mask:
        """Rows on the compute stream."""
        return ~(self._op("collective") | self._op("send") | self._op("recv"))

    # --- blocks -------------------------------------------------------------------------------

    def _cell(self, stage: int, key: tuple[str, int], template: Template) -> None:
        self._cuts[stage, key] = cut = _cut(self.layout, template)
        self._add(
            TaskBlock(stage, key, self._next(len(template)), len(template), False),
            [template.columns],
            [_pairs(template)],
            cut,
        )

    def _tail(self, s: int) -> None:
        """The last task again, from where its input is used, and what comes after it."""
        stage = self.stages[s]
        last = stage.tasks[-1]
        key = (last.kind, last.chunk)
        template, size = stage.templates[key], len(stage.templates[key])
        tail = step_end_nodes(self.layout, stage.stage, stage.held_weights())
        start, pairs = stage.start_of[last], [_pairs(template)]
        for i, node in enumerate(tail):
            rows = [stage.gradient_row(h) - start for h in node.grads]
            rows = [r for r in rows if r >= 0] + [size + a for a in node.after]
            pairs.append(np.array([(r, size + i) for r in rows], np.int64).reshape(-1, 2))
        parts = [table_of([t.node], self.layout.book, t.phase).columns for t in tail]
        cut = np.minimum(self._cuts[s, key], MAIN)
        cut = np.concatenate([cut, np.full(len(tail), MAIN)])
        block = TaskBlock(s, key, self._next(size + len(tail)), size, True)
        self._add(block, [template.columns, *parts], pairs, cut)

    def _next(self, size: int) -> slice:
        return slice(self._size, self._size + size)

    def _add(
        self, block: TaskBlock, parts: list[dict[str, I64]], pairs: list[I64], cut: I64
    ) -> None:
        self._parts += parts
        self._pairs.append(np.concatenate(pairs) + block.rows.start)
        self._segments.append(cut + 3 * len(self.blocks))
        self.blocks.append(block)
        self._size = block.rows.stop

    # --- what is made of them -----------------------------------------------------------------

    def distinct(self) -> tuple[I64, I64]:
        """What decides the time of rows that differ in it, by `WORK`, and which each row is."""
        return distinct_rows([self.columns[n] for n in WORK])

    def program(self, rows: I64) -> StageProgram:
        """Some rows as a program, to be given durations; it has no order."""
        none = np.zeros((0, 2), np.int64)
        zeros = np.zeros(len(rows), np.int64)
        more = dict.fromkeys(("tag", "micro_batch", "chunk", "task", "stream"), zeros)
        return StageProgram(
            0, {**{n: v[rows] for n, v in self.columns.items()}, **more}, none, none
        )

    def edges(self) -> tuple[I64, I64]:
        """Dependencies within segments, and the order of each stream in them."""
        pairs = np.concatenate(self._pairs)
        order = np.lexsort((np.arange(len(self)), self.streams, self.segment))
        chain = np.stack([order[:-1], order[1:]], axis=1)
        same = self.streams[chain[:, 0]] == self.streams[chain[:, 1]]
        both = np.concatenate([pairs, chain[same & (self.streams[chain[:, 0]] < MESSAGES)]])
        within = both[self.segment[both[:, 0]] == self.segment[both[:, 1]]]
        return within[:, 0], within[:, 1]

    def collectives(self) -> Iterator[tuple[int, int, str, I64]]:
        """Type, size and group role of collectives that differ in them, and their rows.

        Gathers of parameters that stay are left out: most micro-batches find them there.
        """
        rows = np.flatnonzero(self.is_collective & (self.columns["stays"] == 0))
        distinct, number = distinct_rows(
            [self.columns[c][rows] for c in ("comm", "comm_size", "role")]
        )
        for i, (kind, size, role) in enumerate(distinct.tolist()):
            yield kind, size, self.layout.book.roles.texts[role], rows[number == i]

    def counts(self, stage: int) -> Iterator[tuple[slice, int]]:
        """The rows of a stage's blocks, and how often they run in a step."""
        tasks = [(c.kind, c.chunk) for c in self.stages[stage].tasks]
        for block in self.blocks:
            if block.stage == stage and block.is_tail:
                yield slice(block.rows.start + block.task_rows, block.rows.stop), 1
            elif block.stage == stage:
                yield block.rows, tasks.count(block.key)


def _pairs(template: Template) -> I64:
    return np.concatenate([template.edges[OWN], template.control])


def _cut(layout: WorkloadLayout, template: Template) -> I64:
    """The segment of each row of a task."""
    size, book = len(template), layout.book
    op, role = template.columns["op"], template.columns["role"]
    names = [book.ops.texts[o] for o in op.tolist()]
    between = np.array([r.startswith("pp:") for r in book.roles.texts])[role]
    compute = np.array([n not in ("collective", "send", "recv") for n in names])
    pairs = _pairs(template)
    graph = Graph(size, pairs[:, 0], pairs[:, 1])
    first, last = 0, size
    for row in np.flatnonzero(between).tolist():
        if names[row] == "recv":
            users = np.flatnonzero(graph.descendants([row]) & compute)
            first = int(users[0]) if len(users) else first
        else:
            makers = np.flatnonzero(graph.ancestors([row]) & compute)
            last = int(makers[-1]) if len(makers) else last
    at = np.arange(size)
    return np.where(at < first, BEFORE_INPUT, np.where(at > last, AFTER_OUTPUT, MAIN))
