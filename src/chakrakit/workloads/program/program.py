"""One stage's program: tasks tiled over micro-batches in the schedule's order, then the step's end.

Everything here is arrays: a template's rows and edges are repeated with offsets, never node by node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64, distinct
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import PipelineTask
from chakrakit.workloads.program.layout import HeldWeight, WorkloadLayout
from chakrakit.workloads.program.step_end import StepEndNode, step_end_nodes
from chakrakit.workloads.program.tables import COLUMNS, TiledColumns, table_of
from chakrakit.workloads.program.task_templates import (
    BACKWARD,
    BEFORE,
    FORWARD,
    OWN,
    Template,
    joined_pairs,
)

COMPUTE = 0
"""The stream compute runs on; the others are numbered by what they carry."""
ACROSS_STAGES = ("embedding", "copy", "copy_edp", "mp", "world")
"""Groups with members on several stages. A stage joins them when it has sent its last message: one that
went in earlier, on hardware that does one communication at a time, would hold up that very message."""
_STREAMS = {"tp": 1, "cp": 2, "ep": 3, "ep_far": 3, "ep_near": 3}
_GATHER, _REDUCE, MESSAGES = 4, 5, 6


@dataclass(eq=False)
class StageProgram:
    """All nodes of one stage. `columns` are by row; `data` and `control` are pairs of rows."""

    stage: int
    columns: Mapping[str, I64]
    data: I64
    control: I64
    weights: list[HeldWeight] = field(default_factory=list)
    held_before: int = 0
    """Bytes that are there before the first node: a cache."""

    def __len__(self) -> int:
        return len(self.columns["stream"])


class Stage:
    """Places the tasks of one stage and resolves edges between them."""

    def __init__(self, layout: WorkloadLayout, stage: int) -> None:
        self.layout, self.stage = layout, stage
        self.tasks = layout.schedule.tasks[stage]
        self.chunks = layout.chunks(stage)
        self.templates = self._templates()
        sizes = np.array([len(self.templates[c.kind, c.chunk]) for c in self.tasks], np.int64)
        self.starts = np.cumsum(sizes) - sizes
        self.size = int(sizes.sum())
        self.start_of = {c: int(s) for c, s in zip(self.tasks, self.starts, strict=True)}

    def _templates(self) -> dict[tuple[str, int], Template]:
        templates: dict[tuple[str, int], Template] = {}
        for number, chunk in enumerate(self.chunks):
            kinds = {c.kind for c in self.tasks if c.chunk == number}
            templates["F", number] = chunk.forward()
            if "B" in kinds:
                templates["B", number] = chunk.backward("B")
            if "I" in kinds:
                templates["I", number] = chunk.backward("I")
                templates["W", number] = chunk.weights()
        return templates

    def columns(self) -> TiledColumns:
        """The templates' columns repeated, with micro-batch, chunk and task."""
        keys = list(self.templates)
        base = np.cumsum([0] + [len(self.templates[k]) for k in keys])
        where = {k: int(b) for k, b in zip(keys, base[:-1], strict=True)}
        sizes = np.diff(np.append(self.starts, self.size))
        shift = np.array([where[c.kind, c.chunk] for c in self.tasks]) - self.starts
        rows = np.arange(self.size) + np.repeat(shift, sizes)
        joined = {c: np.concatenate([self.templates[k].columns[c] for k in keys]) for c in COLUMNS}
        task_columns = {
            "micro_batch": np.repeat([c.micro_batch for c in self.tasks], sizes),
            "chunk": np.repeat([c.chunk for c in self.tasks], sizes),
            "task": np.repeat(np.arange(len(self.tasks)), sizes),
        }
        return TiledColumns(joined, rows, task_columns)

    def edges(self) -> tuple[I64, I64]:
        """Data and control edges of all tasks."""
        data, control = [], []
        for key, template in self.templates.items():
            tasks = [c for c in self.tasks if (c.kind, c.chunk) == key]
            starts = np.array([self.start_of[c] for c in tasks], np.int64)
            control.append(_tiled(template.control, starts, starts))
            for source, pairs in template.edges.items():
                if len(pairs):
                    data.append(_tiled(pairs, self._sources(source, tasks, starts), starts))
        return joined_pairs(data), joined_pairs(control)

    def _sources(self, source: int, tasks: Sequence[PipelineTask], starts: I64) -> I64:
        """For each task, where the rows of its source task start."""
        if source == OWN:
            return starts
        if source == BEFORE:
            return np.array([self._row_before(c) + 1 for c in tasks], np.int64)
        kind = {FORWARD: "F", BACKWARD: "I"}[source]
        return np.array(
            [self.start_of[PipelineTask(kind, c.micro_batch, c.chunk)] for c in tasks], np.int64
        )

    def _row_before(self, task: PipelineTask) -> int:
        """The row that ends the task before (in the micro-batch's way), on this same rank."""
        piece = self.layout.schedule.pieces[self.stage][task.chunk]
        neighbour = piece - 1 if task.kind == "F" else piece + 1
        chunk = self.layout.schedule.pieces[self.stage].index(neighbour)
        for kind in "F" if task.kind == "F" else "BI":
            at = self.start_of.get(PipelineTask(kind, task.micro_batch, chunk))
            if at is not None:
                return at + self.templates[kind, chunk].end
        raise AssertionError("a chunk without the one before it")

    def gradient_row(self, held_weight: HeldWeight) -> int:
        """The row that completes a weight's gradient: in the last task that makes one."""
        for task in reversed(self.tasks):
            if task.chunk == held_weight.chunk and task.kind in "BIW":
                row = (
                    self.templates[task.kind, task.chunk]
                    .grads[held_weight.block]
                    .get(held_weight.weight.grad_node)
                )
                if row is not None:
                    return self.start_of[task] + row
        return -1

    def held_weights(self) -> list[HeldWeight]:
        """All weights of the stage, in the order of the model."""
        return [
            HeldWeight(c, b, w)
            for c, chunk in enumerate(self.chunks)
            for b, tables in enumerate(chunk.blocks)
            for w in tables.block.weights
        ]


def _tiled(pairs: I64, sources: I64, targets: I64) -> I64:
    """Pairs repeated with an offset on either side."""
    src = sources[:, None] + pairs[None, :, 0]
    dst = targets[:, None] + pairs[None, :, 1]
    return np.stack([src.reshape(-1), dst.reshape(-1)], axis=1)


def stage_program(layout: WorkloadLayout, stage: int) -> StageProgram:
    """The program of a stage of a training step."""
    tasks = Stage(layout, stage)
    columns = tasks.columns()
    data, control = tasks.edges()
    weights = tasks.held_weights()
    tail = step_end_nodes(layout, stage, weights)
    if tail:
        columns, extra = _with_step_end(layout, columns, tail, tasks)
        data = np.concatenate([data, extra])
    return ordered_program(
        layout, stage, columns, data, _tags(layout, columns, stage), weights, control
    )


def ordered_program(
    layout: WorkloadLayout,
    stage: int,
    columns: TiledColumns,
    data: I64,
    tags: I64,
    weights: list[HeldWeight],
    control: I64 | None = None,
) -> StageProgram:
    """A program from its rows: streams, and the order on them."""
    columns = columns.with_columns(stream=streams_of(layout, columns), tag=tags)
    keys = distinct(_keys(data, len(tags)))
    strict = layout.workload.plan.strict
    ordered = _in_order(columns["stream"], keys) if strict else data[:0]
    control_pairs = ordered if control is None else np.concatenate([control, ordered])
    pairs = np.stack(np.divmod(keys, len(tags)), axis=1)
    return StageProgram(stage, columns, pairs, control_pairs, weights)


def _with_step_end(
    layout: WorkloadLayout, columns: TiledColumns, tail: Sequence[StepEndNode], tasks: Stage
) -> tuple[TiledColumns, I64]:
    """Adds the tail's rows; returns the columns and the edges into them."""
    parts = [table_of([t.node], layout.book, t.phase).columns for t in tail]
    ends = _last_rows(layout, columns)
    pairs: list[tuple[int, int]] = []
    for i, t in enumerate(tail):
        sources = {tasks.gradient_row(h) for h in t.grads} | {tasks.size + a for a in t.after}
        if t.node.role in ACROSS_STAGES:
            sources |= ends
        pairs += [(s, tasks.size + i) for s in sorted(sources) if s >= 0]
    return columns.with_rows(parts, -1), np.array(pairs, np.int64).reshape(-1, 2)


def _last_rows(layout: WorkloadLayout, columns: Mapping[str, I64]) -> set[int]:
    """The last row of all tasks, and the last message they send."""
    sends = np.flatnonzero(columns["op"] == _number(layout, "send"))
    return {len(columns["op"]) - 1, *sends[-1:].tolist()}


def streams_of(layout: WorkloadLayout, columns: Mapping[str, I64]) -> I64:
    """A stream for compute, one for each kind of communication, one for each peer and direction."""
    roles = layout.book.roles.texts
    ops = np.array(
        [{"send": 2, "recv": 2, "collective": 1}.get(t, 0) for t in layout.book.ops.texts]
    )
    kind = ops[columns["op"]]
    usual = np.array([_STREAMS.get(r, _REDUCE) for r in roles])[columns["role"]]
    data_gather = (usual == _REDUCE) & (columns["comm"] == CollectiveType.ALL_GATHER)
    collective = np.where(data_gather, _GATHER, usual)
    lane = columns["role"] * 4 + columns["op"] % 2 + 2 * (columns["phase"] > 0)
    return np.where(kind == 0, COMPUTE, np.where(kind == 1, collective, MESSAGES + lane))


def _tags(layout: WorkloadLayout, columns: Mapping[str, I64], stage: int) -> I64:
    """Both ends of a message compute the same tag.

    Between stages: micro-batch, boundary between pieces, and direction. Within a ring all ranks run
    the same rows, so a message's row does; a receive takes its send's, one row before.
    """
    rows = np.arange(len(columns["op"]))
    receives = columns["op"] == _number(layout, "recv")
    pipeline = np.array([r.startswith("pp:") for r in layout.book.roles.texts])[columns["role"]]
    pieces = np.array(layout.schedule.pieces[stage])[columns["chunk"]]
    sends = columns["op"] == _number(layout, "send")
    backward = columns["phase"] != 0
    boundary = pieces + (sends != backward) * 1  # a boundary has the number of the piece after it
    count = len(layout.pieces) + 1
    tag = (columns["micro_batch"] * count + boundary) * 2 + backward
    return np.asarray(np.where(pipeline, tag, rows - receives))


def _number(layout: WorkloadLayout, op: str) -> int:
    return layout.book.ops.number(op)


def _in_order(stream: I64, data: I64) -> I64:
    """Edges that keep each stream's rows in order, where data, sorted keys of edges, does not already."""
    order = np.argsort(stream, kind="stable")
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    pairs = pairs[(stream[pairs[:, 0]] == stream[pairs[:, 1]]) & (stream[pairs[:, 0]] < MESSAGES)]
    keys = _keys(pairs, len(stream))
    implied = np.searchsorted(data, keys, "right") > np.searchsorted(data, keys, "left")
    missing: I64 = pairs[~implied]
    return missing


def _keys(pairs: I64, size: int) -> I64:
    return pairs[:, 0] * size + pairs[:, 1]
