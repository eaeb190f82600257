"""One rank of a Run as arrays that every analysis starts from: times in ns, what a row is, where it ran.

Also the table that results are shown in, with its units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.trace.communication import Binding, bind
from chakrakit.trace.model import NodeType, Trace, collective_name
from chakrakit.trace.placement import (
    NO_LANE,
    computes_on_host,
    is_communication,
    is_leaf,
    is_mark,
    lane_number,
    lane_of,
    named,
    on_host,
    outlives_parent,
    stored,
    waits_for_loader,
)
from chakrakit.trace.sets import Run, Times, check_length, whole_ns
from chakrakit.trace.timing import Intervals, held_back

Cell = str | int | float


class Table(msgspec.Struct, frozen=True):
    """A result as people read it: a title, a head and rows. Numbers are in the unit that the head names."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    @classmethod
    def of(cls, title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
        """A table of any sequences."""
        return cls(title, tuple(head), [tuple(row) for row in rows])

    def first(self, count: int) -> Table:
        """The table with only some rows: of ranks those least like the others, else the first ones.

        Its title then says how many there were.
        """
        if len(self.rows) <= count:
            return self
        if self.head[0] == "rank":
            title = f"{self.title} (the {count} least like the others of {len(self.rows):,})"
            return Table(title, self.head, [self.rows[i] for i in self._unusual(count)])
        title = f"{self.title} (first {count} of {len(self.rows):,})"
        return Table(title, self.head, self.rows[:count])

    def _unusual(self, count: int) -> list[int]:
        """The places of the rows whose figures are farthest from the medians of their columns, in order."""
        columns = [
            np.array(column, np.float64)
            for column in zip(*(row[1:] for row in self.rows), strict=True)
            if not any(isinstance(cell, str) for cell in column)
        ]
        apart = np.zeros(len(self.rows))
        for values in columns:
            apart += np.abs(values - np.median(values)) / (np.abs(values).max() or 1.0)
        farthest = np.argsort(-np.round(apart, 9), kind="stable")[:count]
        return sorted(farthest.tolist())

    def folded(self) -> Table:
        """The table with one row for all ranks that are alike; others stay as they are."""
        if self.head[:1] != ("rank",) or not all(isinstance(row[0], int) for row in self.rows):
            return self
        ranks_of_row: dict[tuple[Cell, ...], list[int]] = {}
        for rank, *others in self.rows:
            ranks_of_row.setdefault(tuple(others), []).append(int(rank))
        rows = [(stretches(sorted(ranks)), *row) for row, ranks in ranks_of_row.items()]
        return Table(self.title, self.head, rows)


_STRETCHES = 3
"""Stretches of ranks that a text names before it is cut: about what fits beside a bar."""


def stretches(ranks: Sequence[int]) -> str:
    """`5`, `0–63 (64)`, `0, 8–15, 24 … (12)`: ascending ranks, cut to a few stretches."""
    if len(ranks) == 1:
        return str(ranks[0])
    ends = np.flatnonzero(np.diff(ranks) != 1)
    firsts, lasts = [0, *(ends + 1)], [*ends, len(ranks) - 1]
    parts = [
        str(ranks[a]) if a == b else f"{ranks[a]}–{ranks[b]}"
        for a, b in zip(firsts[:_STRETCHES], lasts, strict=False)
    ]
    more = " …" if len(firsts) > _STRETCHES else ""
    return f"{', '.join(parts)}{more} ({len(ranks):,})"


_NOISE = re.compile(r"^void |\(anonymous namespace\)::|at::native::")
_PARAMETERS = re.compile(r"(?<=[>\w])\((?:[^()]|\([^()]*\))*\)$")


def short(name: str, most: int = 60) -> str:
    """A kernel's name without return type, common namespaces and parameters, cut to fit."""
    text = _PARAMETERS.sub("", _NOISE.sub("", name)) if len(name) < 4000 else name
    text = text or name
    return text if len(text) <= most else text[: most - 1] + "…"


def ms(nanos: float) -> float:
    """Milliseconds to the microsecond."""
    return round(nanos / 1e6, 3) + 0.0  # no -0.0


def us(nanos: float) -> float:
    """Microseconds to the nanosecond."""
    return round(nanos / 1e3, 3) + 0.0


def percent(part: float, whole: float) -> float:
    """A share in percent to one digit; 0 of nothing."""
    return round(100 * part / whole, 1) + 0.0 if whole else 0.0


_COPY = re.compile(r"^(Memcpy|Memset|memcpy|memset)\b")
_RUNTIME = re.compile(r"^(cuda|hip|cu|nccl|rccl)[A-Z_]\w*$")
_RECEIVE = 9
"""The engine of receives that name no stream; any number that is not a RowKind."""
_RECORDERS_ROUND_NS = 1_000
"""Some recorders write whole microseconds."""
_TICKS_ROUND_NS = 1
"""Times of a run are rounded to whole nanoseconds."""


class RowKind(IntEnum):
    """What a row spends its time on."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    HOST = 3
    NONE = 4
    """It did not run, or does no work."""
    LOAD = 5
    """It reads from a store, which takes nothing from the device or the host."""
    SAVE = 6
    """It writes to a store."""


KIND_NAMES: dict[int, str] = {
    RowKind.COMPUTE: "compute",
    RowKind.COMM: "communication",
    RowKind.COPY: "copy",
    RowKind.HOST: "host",
    RowKind.NONE: "other",
    RowKind.LOAD: "load",
    RowKind.SAVE: "save",
}
"""The names of the kinds in results and on pages."""


@dataclass(frozen=True, eq=False)
class RankView:
    """A rank's rows: `start` and `end` in whole ns, and what the trace says about them.

    `own` is the time a row works by itself: for host rows of a linked trace without what runs
    inside and without waiting, else from start to end. Rows that did not run have kind NONE.
    """

    rank: int
    trace: Trace
    start: I64
    end: I64
    measured: bool
    groups: Mapping[str, str] = field(default_factory=dict)
    """The rank's names for the groups that the trace names, where they differ."""

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def ran(self) -> Mask:
        """Rows that have times; a simulator gives -1 to those that never ran."""
        return (self.end >= self.start) & (self.end >= 0)

    @cached_property
    def span(self) -> tuple[int, int]:
        """First start and last end; (0, -1) where nothing ran."""
        if not self.ran.any():
            return 0, -1
        if self.ran.all():
            return int(self.start.min()), int(self.end.max())
        return int(self.start[self.ran].min()), int(self.end[self.ran].max())

    @property
    def tolerance_ns(self) -> int:
        """By how much a cause may seem to come after its effect, because times are rounded."""
        return _RECORDERS_ROUND_NS if self.measured else _TICKS_ROUND_NS

    @cached_property
    def duration(self) -> I64:
        """From start to end."""
        return self.end - self.start

    @cached_property
    def own(self) -> I64:
        """How long each row itself works, in ns.

        For host rows this is the trace's value whoever timed the run, because a simulator or a replay does
        not tell a host row from the rows inside it. The same holds for rows whose end waited for another's.
        """
        from_trace = self.trace.has("own_ns") & (self.on_host | self.measured)
        if not self.measured:
            from_trace |= held_back(self.trace, self.start, self.end)
        return np.where(from_trace, np.minimum(self.trace.own_ns, self.duration), self.duration)

    @cached_property
    def on_host(self) -> Mask:
        """Rows that run on the host."""
        return on_host(self.trace)

    @property
    def names(self) -> tuple[I32, list[str]]:
        """One code per row, and the name of each code."""
        return self.trace.texts("name")

    def name(self, row: int) -> str:
        """A row's name."""
        codes, texts = self.names
        return str(texts[codes[row]])

    def named(self, test: Callable[[str], Any]) -> Mask:
        """Rows whose name passes the test, which is called once per distinct name."""
        return named(self.trace, test)

    def texts(self, column: str) -> tuple[I32, list[str]]:
        """A text attribute as codes and values; -1 where a row does not have it."""
        codes, texts = self.trace.texts(column)
        if column == "pg_name" and self.groups:
            texts = [self.groups.get(t, t) for t in texts]
        return codes, texts

    @cached_property
    def is_runtime(self) -> Mask:
        """Host rows that are calls of the device's runtime, not operators."""
        return self.on_host & self.named(_RUNTIME.match)

    @cached_property
    def is_mark(self) -> Mask:
        """Rows that only mark a range, such as a profiler's step."""
        return is_mark(self.trace)

    @cached_property
    def is_comm(self) -> Mask:
        """Rows that communicate; host rows that only announce a kernel of NCCL are not among them."""
        return is_communication(self.trace)

    @cached_property
    def kind(self) -> I8:
        """The Kind of each row. Where nothing runs on a device, the host's compute operators compute."""
        kind = np.full(len(self), RowKind.COMPUTE, np.int8)
        kind[self.on_host] = RowKind.HOST
        moves = self.trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
        kind[~self.on_host & (moves | self.named(_COPY.match))] = RowKind.COPY
        if not self.has_device:
            kind[computes_on_host(self.trace)] = RowKind.COMPUTE
        kind[self.is_comm] = RowKind.COMM
        kind[self.uses_store] = np.where(
            self.trace.is_type(NodeType.MEM_LOAD_NODE), RowKind.LOAD, RowKind.SAVE
        )[self.uses_store]
        idle = self.trace.is_type(NodeType.METADATA_NODE, NodeType.INVALID_NODE) & ~self.on_host
        kind[~self.ran | idle] = RowKind.NONE
        return kind

    @cached_property
    def loads_data(self) -> Mask:
        """Rows that read data from a store, and host rows in which the program waits for its data loader."""
        reads = stored(self.trace) & self.trace.is_type(NodeType.MEM_LOAD_NODE)
        return waits_for_loader(self.trace) | reads

    @cached_property
    def uses_store(self) -> Mask:
        """Rows that read from or write to a store of the machine."""
        if "storage" not in self.trace.column_names:
            return np.zeros(len(self), np.bool_)
        named = self.trace.column("storage", "") != ""
        return np.asarray(stored(self.trace) & named, np.bool_)

    @cached_property
    def has_device(self) -> bool:
        """Whether anything but communication runs on a device."""
        return bool((~self.on_host & self.ran & ~self.is_comm & ~self.uses_store).any())

    @cached_property
    def parent(self) -> I32:
        """For host rows, the host row that each runs inside of; -1 for none."""
        return self.trace.parent

    @cached_property
    def is_leaf(self) -> Mask:
        """Rows with nothing inside."""
        return is_leaf(self.trace)

    @cached_property
    def operator(self) -> I32:
        """The operator each row belongs to: a kernel's is around its launch; the row itself if none is."""
        itself = np.arange(len(self), dtype=np.int32)
        edges = self.trace.edges
        launch = edges.where(edges.kind == 3)
        holder = itself.copy()
        holder[launch.dst] = launch.src
        for _ in range(64):
            up = self.is_runtime[holder] & (self.parent[holder] >= 0)
            if not up.any():
                break
            holder = np.where(up, self.parent[holder], holder)
        return np.where(self.is_runtime[holder], itself, holder).astype(np.int32)

    def called(self, rows: I64) -> tuple[I64, I64, list[str]]:
        """For each row, the row with its shapes and the code of its operator's name; and the codes' names.

        No operator launched the kernels of a CUDA graph; the node names the operator that was captured.
        """
        codes, texts = self.names
        operator = self.operator[rows].astype(np.int64)
        called = codes[operator].astype(np.int64)
        captured, names = self.texts("operator")
        graph = captured[rows] >= 0
        operator[graph] = rows[graph]
        called[graph] = captured[rows[graph]] + len(texts)
        return operator, called, [*texts, *names]

    @cached_property
    def background(self) -> Mask:
        """Rows of threads that only call the runtime, such as those that poll for completion."""
        lane, names = self.lanes
        working = np.zeros(len(names), np.bool_)
        working[lane[~self.is_runtime]] = True
        return ~working[lane]

    @cached_property
    def lanes(self) -> tuple[I32, list[str]]:
        """The lane of each row as a number, and the names of all lanes, device lanes before threads."""
        host, lane = self.on_host, lane_of(self.trace)
        device = np.broadcast_to(np.int64(0), len(self))
        if "device" in self.trace.column_names:
            device = np.where(host, 0, self.trace.column("device", 0))
        without = ~host & (lane == NO_LANE)
        if without.any():
            # A posted receive waits beside other communication and must not delay it.
            engine = self.kind.astype(np.int64)
            engine[self.trace.types == NodeType.COMM_RECV_NODE] = _RECEIVE
            lane[without] = _engine_lane(engine[without])
        distinct, number = _unique_rows([host, device, lane])
        return number, [_lane_name(*map(int, k)) for k in distinct]

    @cached_property
    def lane_pairs(self) -> tuple[I64, I64]:
        """Rows and their next rows on every device lane whose rows do not overlap.

        Receives without a stream are left out, and in simulated runs all communication without one: they
        start whenever they can.
        """
        lane, _ = self.lanes
        receives = self.trace.types == NodeType.COMM_RECV_NODE
        beside = ~self.trace.has("stream") & (receives if self.measured else self.is_comm)
        works = self.works_on_device | self.uses_store
        rows = np.flatnonzero(works & self.ran & ~self.on_host & ~beside)
        rows = rows[np.lexsort((rows, self.end[rows], self.start[rows], lane[rows]))]
        same = lane[rows[1:]] == lane[rows[:-1]]
        overlap = same & (self.start[rows[1:]] < self.end[rows[:-1]] - self.tolerance_ns)
        shared = np.zeros(int(lane.max(initial=-1)) + 1, np.bool_)
        shared[lane[rows[1:][overlap]]] = True
        same &= ~shared[lane[rows[1:]]]
        return rows[:-1][same], rows[1:][same]

    def busy(self, *kinds: RowKind) -> Intervals:
        """When rows of these kinds were at work; a host row that waits counts as working at its end."""
        chosen = reduce(np.logical_or, [self.kind == kind for kind in kinds])
        if not (chosen & self.on_host).any():
            return Intervals.of(self.start[chosen], self.end[chosen])
        calling = chosen & self.on_host & ~self.is_comm & ~self.is_leaf
        rows = np.flatnonzero(chosen & ~calling)
        begin, end = self.start[rows], self.end[rows]
        late = np.flatnonzero((self.on_host & ~self.is_comm)[rows])
        begin[late] = end[late] - self.own[rows[late]]
        between_begin, between_end = self._between_calls(calling)
        return Intervals.of(np.r_[begin, between_begin], np.r_[end, between_end])

    def _between_calls(self, callers: Mask) -> tuple[I64, I64]:
        """The stretches of host rows before, between and after the rows that they call."""
        inner = np.flatnonzero((self.parent >= 0) & self.ran & ~outlives_parent(self.trace))
        inner = inner[callers[self.parent[inner]]]
        inner = inner[np.lexsort((self.start[inner], self.parent[inner]))]
        outer = self.parent[inner]
        first = np.r_[True, outer[1:] != outer[:-1]] if len(inner) else np.zeros(0, np.bool_)
        last = np.r_[first[1:], True] if len(inner) else first
        before = np.where(first, self.start[outer], np.r_[0, self.end[inner[:-1]]][: len(inner)])
        alone = np.flatnonzero(callers & self.ran)
        alone = alone[~np.isin(alone, outer)]
        begin = np.r_[before, self.end[inner[last]], self.start[alone]]
        end = np.r_[self.start[inner], self.end[outer[last]], self.end[alone]]
        return begin, end

    @cached_property
    def works_on_device(self) -> Mask:
        """Rows that make up the timeline: those of the device, and communication anywhere."""
        return self.kind <= RowKind.COPY


def _unique_rows(columns: list[NDArray[Any]]) -> tuple[I64, I32]:
    """The distinct rows of these columns, ascending, and the place of each row among them."""
    parts = [_unique(column) for column in columns]
    varied = [(values, number) for values, number in parts if len(values) > 1]
    if len(varied) == 1:
        codes, place = np.arange(len(varied[0][0])), varied[0][1]
    else:
        code = np.zeros(len(columns[0]), np.int64)
        for values, number in varied:
            code = code * len(values) + number
        codes, place = _unique(code)
    numbers = np.unravel_index(codes, [max(len(values), 1) for values, _ in parts])
    distinct = [values[n] for (values, _), n in zip(parts, numbers, strict=True)]
    return np.stack(distinct, axis=1).astype(np.int64), place


def _unique(values: NDArray[Any]) -> tuple[NDArray[Any], I32]:
    """As np.unique with its inverse, but by hashing, which is faster for few values in millions of rows."""
    if len(values) and values.min() == values.max():
        return values[:1], np.broadcast_to(np.int32(0), len(values))
    coded = pa.array(values).dictionary_encode()
    distinct = coded.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(distinct)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return distinct[order], place[coded.indices.to_numpy()]


def _engine_lane(engine: I64 | int) -> I64 | int:
    """The lane of a device's engine, for rows that name no stream; applied to such a lane, its engine."""
    return NO_LANE - 1 - engine


def _lane_name(on_host: int, device: int, lane: int) -> str:
    if on_host:
        return "host" if lane == NO_LANE else f"thread {lane_number(lane)}"
    if lane >= 0:
        return f"device {device} stream {lane_number(lane)}"
    engine = int(_engine_lane(lane))
    return f"device {device} {'receive' if engine == _RECEIVE else RowKind(engine).name.lower()}"


def rank_view(run: Run, rank: int) -> RankView:
    """The view of one rank."""
    times = None if run.times is None else run.times_of(rank)
    return view_of(rank, run.trace(rank), times, run.tick_ps)


def view_of(rank: int, trace: Trace, times: Times | None, tick_ps: int) -> RankView:
    """The view of a rank's trace; without `times`, those of its nodes count."""
    if times is None:
        return RankView(rank, trace, trace.start_ns, trace.end_ns, True)
    check_length(len(times.start), len(trace), rank)
    start, end = whole_ns(times, tick_ps)
    return RankView(rank, trace, start, end, False)


def body_view(rank: int, body: Trace, binding: Binding, times: Times, tick_ps: int) -> RankView:
    """The view of a rank on the body that it shares with other ranks, and with it what is cached there.

    Of what a binding changes, a view shows only the names of groups; a rank of another scale gets a trace of
    its own.
    """
    if binding.scale != 1.0:
        return view_of(rank, bind(body, binding), times, tick_ps)
    return replace(view_of(rank, body, times, tick_ps), groups=binding.groups)


def rank_views(run: Run) -> Iterator[RankView]:
    """The views of all ranks, one at a time, so that a run larger than memory can be read."""
    return (rank_view(run, rank) for rank in run.ranks)


def group_of(view: RankView) -> tuple[I32, list[str]]:
    """The process group of each row, as codes and names."""
    return view.texts("pg_name")


def comm_name(view: RankView, row: int) -> str:
    """`ALL_REDUCE`, `SEND`, … of a communication row."""
    kind = int(view.trace.types[row])
    if kind == NodeType.COMM_COLL_NODE:
        code = int(view.trace.column("comm_type", -1)[row])
        return collective_name(code) if code >= 0 else "COLLECTIVE"
    return "SEND" if kind == NodeType.COMM_SEND_NODE else "RECV"
