"""One stage's program: tasks tiled over micro-batches in the schedule's order, with the end of every step.

Everything here is arrays: a template's rows and edges are repeated with offsets, never node by node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, distinct
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.description import PipelineTask
from chakrakit.workloads.program.exchanges import FilledRows, exchange_roles
from chakrakit.workloads.program.layout import HeldWeight, WorkloadLayout
from chakrakit.workloads.program.shapes import RowShape, shaped_template
from chakrakit.workloads.program.staying import StayingTasks, without_staying
from chakrakit.workloads.program.step_end import StepEndNode, step_end_nodes
from chakrakit.workloads.program.tables import COLUMNS, PHASES, TiledColumns, table_of
from chakrakit.workloads.program.task_templates import (
    BACKWARD,
    BEFORE,
    FORWARD,
    OWN,
    Chunk,
    Template,
    joined_pairs,
)
from chakrakit.workloads.program.turns import rows_in_turns

COMPUTE = 0
"""The stream compute runs on; the others are numbered by what they carry."""
ACROSS_STAGES = ("embedding", "copy", "copy_edp", "mp", "world")
"""Groups with members on several stages. A stage joins them when it has sent its last message: one that
went in earlier, on hardware that does one communication at a time, would hold up that very message."""
_STREAMS = {"tp": 1, "cp": 2, "ep": 3, "ep_far": 3, "ep_near": 3}
_GATHER, _REDUCE, MESSAGES = 4, 5, 6


class TaskRows(NamedTuple):
    """The first row of a task, the rows that read its input, and the row that makes its result."""

    first: int
    entries: tuple[int, ...]
    end: int

    def moved(self, rows: FilledRows) -> TaskRows:
        """The same where some rows are left out; of these only the first may be one."""
        place = rows.place
        first = int(rows.kept[: self.first].sum())
        return TaskRows(first, tuple(int(place[e]) for e in self.entries), int(place[self.end]))

    def at(self, place: I64) -> TaskRows:
        """The same where rows have other places."""
        entries = tuple(int(place[e]) for e in self.entries)
        return TaskRows(int(place[self.first]), entries, int(place[self.end]))


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
    tasks: Mapping[PipelineTask, TaskRows] = field(default_factory=dict)
    """Where other programs may join in: the rows of each task that begin and end it."""

    def __len__(self) -> int:
        return len(self.columns["stream"])


class Stage:
    """Places the tasks of one stage and resolves edges between them.

    After the tasks of every update come the rows that apply its gradients.
    """

    def __init__(self, layout: WorkloadLayout, stage: int) -> None:
        self.layout, self.stage = layout, stage
        self.tasks = layout.schedule.tasks[stage]
        self.updates = layout.schedule.updates_of(stage)
        self.chunks = layout.chunks(stage)
        self.templates = self._templates(self.chunks)
        sizes = np.array([len(self.templates[c.kind, c.chunk]) for c in self.tasks], np.int64)
        self.version = np.searchsorted(self.updates, np.arange(len(self.tasks)), "right")
        tails = self.version * (len(self.tail) if len(self.updates) > 1 else 0)
        self.starts = np.cumsum(sizes) - sizes + tails
        self.sizes = sizes
        self.size = int(sizes.sum())
        self.start_of = {c: int(s) for c, s in zip(self.tasks, self.starts, strict=True)}

    @cached_property
    def tail(self) -> list[StepEndNode]:
        """What the stage does to apply its gradients."""
        return step_end_nodes(self.layout, self.stage, self.held_weights())

    def _templates(self, chunks: Sequence[Chunk]) -> dict[tuple[str, int], Template]:
        templates: dict[tuple[str, int], Template] = {}
        for number, chunk in enumerate(chunks):
            kinds = {c.kind for c in self.tasks if c.chunk == number}
            templates["F", number] = chunk.forward()
            if "B" in kinds:
                templates["B", number] = chunk.backward("B")
            if "I" in kinds:
                templates["I", number] = chunk.backward("I")
                templates["W", number] = chunk.weights()
        return templates

    def columns(self) -> TiledColumns:
        """The templates' columns repeated, with micro-batch, chunk, task and the weights' version."""
        tail = [table_of([t.node], self.layout.book, t.phase).columns for t in self.tail]
        tables, shift_of = self._tables()
        table_rows = sum(len(t["op"]) for t in tables)
        end = (np.arange(table_rows, table_rows + len(tail)), -1, -1, -1)
        parts = []
        for number, task in enumerate(self.tasks):
            if number and self.version[number] != self.version[number - 1]:
                parts.append((*end, int(self.version[number - 1])))
            shift = shift_of[self._shape(task.micro_batch), task.kind, task.chunk]
            rows = np.arange(shift, shift + self.sizes[number])
            parts.append((rows, task.micro_batch, task.chunk, number, int(self.version[number])))
        parts.append((*end, len(self.updates) - 1))
        sizes = [len(p[0]) for p in parts]
        own = {
            name: np.repeat(np.array([p[k] for p in parts], np.int64), sizes)
            for k, name in enumerate(("micro_batch", "chunk", "task", "version"), 1)
        }
        joined = {c: np.concatenate([t[c] for t in (*tables, *tail)]) for c in COLUMNS}
        return TiledColumns(joined, np.concatenate([p[0] for p in parts]), own)

    def _shape(self, micro_batch: int) -> RowShape | None:
        return self.layout.shapes[micro_batch] if self.layout.shapes else None

    def _tables(self) -> tuple[list[dict[str, I64]], dict[tuple[RowShape | None, str, int], int]]:
        """Tables of all shapes of micro-batches, and where each begins when they are joined."""
        tables, shift_of, size = [], {}, 0
        for shape in dict.fromkeys(self.layout.shapes or (None,)):
            templates = self.templates if shape is None else self._shaped_templates(shape)
            for (kind, chunk), template in templates.items():
                shift_of[shape, kind, chunk] = size
                tables.append(template.columns)
                size += len(template)
        return tables, shift_of

    def _shaped_templates(self, shape: RowShape) -> dict[tuple[str, int], Template]:
        """The templates for micro-batches of a shape: as many rows, of other sizes."""
        key = (self.stage, shape)
        if key not in self.layout.shaped:
            own = shape == self.layout.shape
            templates = (
                self.templates
                if own
                else self._templates(self.layout.of_shape(shape).chunks(self.stage))
            )
            self.layout.shaped[key] = {
                k: shaped_template(t, shape.cost) for k, t in templates.items()
            }
        return self.layout.shaped[key]

    def gathered_once(self, columns: TiledColumns) -> tuple[FilledRows, TiledColumns]:
        """The rows without gathers of parameters that are there, and columns that free them once."""
        staying = StayingTasks.of(self.tasks, self.version.tolist())
        rows, task = np.arange(len(columns["task"])), columns["task"]
        in_task = task >= 0
        left_out = in_task & (columns["stays"] > 0) & ~staying.gathers[task]
        first = self.starts[staying.gathered_in[task]] + rows - self.starts[task]
        _, free = without_staying(columns)
        put_off = columns["phase"] == PHASES.index("weight")
        is_last = np.where(put_off, staying.is_last_weight[task], staying.is_last[task])
        free = np.where(is_last, columns["free"], free)
        return FilledRows(~left_out, np.where(left_out, first, -1)), columns.with_columns(free=free)

    def tail_starts(self) -> list[int]:
        """Where the rows of each update begin."""
        return [int(self.starts[u - 1] + self.sizes[u - 1]) if u else 0 for u in self.updates]

    def tail_edges(self, columns: Mapping[str, I64]) -> I64:
        """Edges into the rows that apply gradients, and from them to what needs the new weights."""
        pairs: list[tuple[int, int]] = []
        low = 0
        for update, start in zip(self.updates, self.tail_starts(), strict=True):
            last = self._last_rows(columns, start)
            for i, t in enumerate(self.tail):
                sources = {self.gradient_row(h, low, update) for h in t.grads}
                sources |= {start + a for a in t.after}
                if t.node.role in ACROSS_STAGES:
                    sources |= last
                pairs += [(s, start + i) for s in sorted(sources) if s >= 0]
            later = self._first_readers(update) + self._first_receives(columns, start)
            pairs += [(s, d) for d in later for s in self._sinks(start)]
            low = update
        return np.array(pairs, np.int64).reshape(-1, 2)

    def _last_rows(self, columns: Mapping[str, I64], start: int) -> set[int]:
        """The last row of the tasks before an update, and the last message they send."""
        sends = np.flatnonzero(columns["op"][:start] == _number(self.layout, "send"))
        return {start - 1, *sends[-1:].tolist()}

    def _sinks(self, start: int) -> list[int]:
        """The rows of an update that no other row of it waits for."""
        inner = {a for t in self.tail for a in t.after}
        return [start + i for i in range(len(self.tail)) if i not in inner]

    def _first_receives(self, columns: Mapping[str, I64], start: int) -> list[int]:
        """The first receive from every peer after an update: one that is open slows computation down."""
        after = start + len(self.tail)
        receives = columns["op"][after:] == _number(self.layout, "recv")
        lanes = columns["role"][after:] * 2 + (columns["phase"][after:] > 0)
        _, first = np.unique(lanes[receives], return_index=True)
        rows: list[int] = (np.flatnonzero(receives)[first] + after).tolist()
        return rows

    def _first_readers(self, update: int) -> list[int]:
        """Rows of the first forward of every chunk after an update that wait for nothing but a message."""
        rows: list[int] = []
        for chunk in range(len(self.chunks)):
            later = (c for c in self.tasks[update:] if c.kind == "F" and c.chunk == chunk)
            if task := next(later, None):
                template = self.templates["F", chunk]
                receives = template.columns["op"] == _number(self.layout, "recv")
                waits = np.zeros(len(template), np.bool_)
                own = template.edges[OWN]
                waits[own[~receives[own[:, 0]], 1]] = True
                waits[template.control[:, 1]] = True
                first = np.flatnonzero(~waits & ~receives)
                rows += (first + self.start_of[task]).tolist()
        return rows

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

    def gradient_row(self, held_weight: HeldWeight, low: int = 0, high: int | None = None) -> int:
        """The row that completes a weight's gradient: in the last task of a stretch that makes one."""
        for task in reversed(self.tasks[low:high]):
            if task.chunk == held_weight.chunk and task.kind in "BIW":
                row = (
                    self.templates[task.kind, task.chunk]
                    .grads[held_weight.block]
                    .get(held_weight.weight.grad_node)
                )
                if row is not None:
                    return self.start_of[task] + row
        return -1

    def task_rows(self) -> dict[PipelineTask, TaskRows]:
        """The rows that begin and end each task."""
        entries = {key: self._entries(template) for key, template in self.templates.items()}
        rows = {}
        for task, start in self.start_of.items():
            key = (task.kind, task.chunk)
            own = tuple(start + row for row in entries[key])
            rows[task] = TaskRows(start, own, start + self.templates[key].end)
        return rows

    def _entries(self, template: Template) -> list[int]:
        """Rows of a task that wait for nothing of it but parameters that are gathered."""
        ops = self.layout.book.ops.texts
        computes = np.array([t not in ("collective", "send", "recv") for t in ops])
        computing = computes[template.columns["op"]]
        pairs = template.edges[OWN]
        waits = np.zeros(len(template), np.bool_)
        waits[pairs[:, 1]] = True
        gathered = ~waits & ~computing
        later = np.zeros(len(template), np.bool_)
        later[pairs[~gathered[pairs[:, 0]], 1]] = True
        rows: list[int] = np.flatnonzero(computing & ~later).tolist()
        return rows

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
    """The program of a stage of a training step, or of several."""
    tasks = Stage(layout, stage)
    columns = tasks.columns()
    data, control = tasks.edges()
    data = np.concatenate([data, tasks.tail_edges(columns)])
    weights, tags = tasks.held_weights(), _tags(layout, columns, stage)
    task_rows = tasks.task_rows()
    if columns["stays"].any():
        rows, columns = tasks.gathered_once(columns)
        columns, tags = rows.columns(columns), tags[rows.kept]
        data, control = rows.pairs(data), rows.pairs(control)
        task_rows = {t: r.moved(rows) for t, r in task_rows.items()}
    if layout.takes_turns:
        order = rows_in_turns(tasks.tasks, columns, layout.book)
        place = np.argsort(order)
        columns, tags = columns.some(order), tags[order]
        data, control = place[data], place[control]
        task_rows = {t: r.at(place) for t, r in task_rows.items()}
    if not exchange_roles(layout).any():
        program = ordered_program(layout, stage, columns, data, tags, weights, control)
        return replace(program, tasks=task_rows)
    rows = FilledRows.of(layout, columns)
    return ordered_program(
        layout,
        stage,
        rows.columns(columns),
        rows.pairs(data),
        tags[rows.kept],
        weights,
        rows.pairs(control),
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
    keys = distinct(pair_keys(data, len(tags)))
    strict = layout.workload.plan.strict
    ordered = in_order(columns["stream"], keys) if strict else data[:0]
    control_pairs = ordered if control is None else np.concatenate([control, ordered])
    pairs = np.stack(np.divmod(keys, len(tags)), axis=1)
    return StageProgram(stage, columns, pairs, control_pairs, weights)


def streams_of(layout: WorkloadLayout, columns: Mapping[str, I64]) -> I64:
    """A stream for compute, one for each kind of communication, one for each peer and direction.

    Attention in blocks exchanges keys with one peer after another either way, and gradients beside them.
    """
    roles = layout.book.roles.texts
    ops = np.array(
        [{"send": 2, "recv": 2, "collective": 1}.get(t, 0) for t in layout.book.ops.texts]
    )
    kind = ops[columns["op"]]
    usual = np.array([_STREAMS.get(r, _REDUCE) for r in roles])[columns["role"]]
    data_gather = (usual == _REDUCE) & (columns["comm"] == CollectiveType.ALL_GATHER)
    collective = np.where(data_gather, _GATHER, usual)
    lane = columns["role"] * 4 + columns["op"] % 2 + 2 * (columns["phase"] > 0)
    shared = exchange_roles(layout)[columns["role"]]
    if shared.any():  # role 0 is nobody's, so that its four lanes are free
        grads = np.array([role.startswith("grads:") for role in roles])[columns["role"]]
        in_turn = (columns["op"] == _number(layout, "recv")) + 2 * grads
        lane = np.where(shared, in_turn, lane)
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


def in_order(stream: I64, data: I64) -> I64:
    """Edges that keep each stream's rows in order, where data, sorted keys of edges, does not already."""
    order = np.argsort(stream, kind="stable")
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    pairs = pairs[(stream[pairs[:, 0]] == stream[pairs[:, 1]]) & (stream[pairs[:, 0]] < MESSAGES)]
    keys = pair_keys(pairs, len(stream))
    implied = np.searchsorted(data, keys, "right") > np.searchsorted(data, keys, "left")
    missing: I64 = pairs[~implied]
    return missing


def pair_keys(pairs: I64, size: int) -> I64:
    """A number for each pair of rows; sorted, they are what `in_order` looks edges up in."""
    return pairs[:, 0] * size + pairs[:, 1]
