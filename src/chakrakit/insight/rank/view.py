"""One rank of a Run as arrays that every analysis starts from: times in ns, what a row is, where it ran."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.trace.communication import Binding, bind
from chakrakit.trace.model import NodeType, Trace, collective_name
from chakrakit.trace.placement import NO_LANE, is_communication, lane_number, lane_of, on_host
from chakrakit.trace.sets import Run, Times, check_length, whole_ns
from chakrakit.trace.timing import Intervals, held_back

# Table: how a result is shown to people; a title, a head and rows of plain values.


Cell = str | int | float


class Table(msgspec.Struct, frozen=True):
    """Rows under a head. Numbers are already in the unit that the head names."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]

    @classmethod
    def of(cls, title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
        """A table from anything that can be walked."""
        return cls(title, tuple(head), [tuple(row) for row in rows])

    def first(self, count: int) -> Table:
        """The first rows; the title says how many there were."""
        if len(self.rows) <= count:
            return self
        title = f"{self.title} (first {count} of {len(self.rows):,})"
        return Table(title, self.head, self.rows[:count])


_NOISE = re.compile(r"^void |\(anonymous namespace\)::|at::native::")
_PARAMETERS = re.compile(r"(?<=[>\w])\((?:[^()]|\([^()]*\))*\)$")


def short(name: str, most: int = 60) -> str:
    """A kernel's name without return type, common namespaces and parameters, cut to fit."""
    text = _PARAMETERS.sub("", _NOISE.sub("", name)) if len(name) < 4000 else name
    text = text or name
    return text if len(text) <= most else text[: most - 1] + "…"


def ms(nanos: float) -> float:
    """Milliseconds to the microsecond."""
    return round(nanos / 1e6, 3)


def us(nanos: float) -> float:
    """Microseconds to the nanosecond."""
    return round(nanos / 1e3, 3)


def percent(part: float, whole: float) -> float:
    """A share in percent to one digit; 0 of nothing."""
    return round(100 * part / whole, 1) if whole else 0.0


_COPY = re.compile(r"^(Memcpy|Memset|memcpy|memset)\b")
_RUNTIME = re.compile(r"^(cuda|hip|cu|nccl|rccl)[A-Z_]\w*$")
_MARK = re.compile(r"^ProfilerStep#\d+$|^PyTorch Profiler")
_RECEIVE = 9
_RECORDERS_ROUND_NS = 1_000
_TICKS_ROUND_NS = 1


class Kind(IntEnum):
    """What a row spends its time on."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    HOST = 3
    NONE = 4
    """Did not run, or stands for no work."""


KIND_NAMES: dict[int, str] = {
    Kind.COMPUTE: "compute",
    Kind.COMM: "communication",
    Kind.COPY: "copy",
    Kind.HOST: "host",
    Kind.NONE: "other",
}
"""What results and pages call the kinds."""


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
    """What the groups that the trace names are to the rank, where that differs."""

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def ran(self) -> Mask:
        """Rows that have times; a simulator gives -1 to those that never ran."""
        return self.end >= np.maximum(self.start, 0)

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end; (0, -1) where nothing ran."""
        if not self.ran.any():
            return 0, -1
        return int(self.start[self.ran].min()), int(self.end[self.ran].max())

    @property
    def tolerance_ns(self) -> int:
        """How much later than its effect a cause may seem: recorders round, a run's own times hardly do."""
        return _RECORDERS_ROUND_NS if self.measured else _TICKS_ROUND_NS

    @cached_property
    def duration(self) -> I64:
        """From start to end."""
        return self.end - self.start

    @cached_property
    def own(self) -> I64:
        """Time of the row's own work.

        What the trace says a host row works by itself holds whoever timed the run: a simulator
        or a replay moves host rows and what runs inside them, but does not tell the two apart. So it
        does of any row that another one's end held back.
        """
        told = self.trace.has("own_ns") & (self.on_host | self.measured)
        if not self.measured:
            told |= held_back(self.trace, self.start, self.end)
        return np.where(told, np.minimum(self.trace.own_ns, self.duration), self.duration)

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
        """Rows whose name passes; each distinct name is asked once."""
        codes, texts = self.names
        return np.array([bool(test(t)) for t in texts] or [False], np.bool_)[codes]

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
        return self.on_host & self.named(_MARK.match)

    @cached_property
    def is_comm(self) -> Mask:
        """Communication. What the host says of it before a kernel does it (NCCL) is not it."""
        return is_communication(self.trace)

    @cached_property
    def kind(self) -> I8:
        """The Kind of each row. Where nothing runs on a device, the host's innermost operators compute."""
        kind = np.full(len(self), Kind.COMPUTE, np.int8)
        kind[self.on_host] = Kind.HOST
        moves = self.trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
        kind[~self.on_host & (moves | self.named(_COPY.match))] = Kind.COPY
        if not self.has_device:
            kind[self.on_host & self.is_leaf & ~self.is_mark] = Kind.COMPUTE
        kind[self.is_comm] = Kind.COMM
        idle = self.trace.is_type(NodeType.METADATA_NODE, NodeType.INVALID_NODE) & ~self.on_host
        kind[~self.ran | idle] = Kind.NONE
        return kind

    @cached_property
    def has_device(self) -> bool:
        """Whether anything but communication runs on a device."""
        return bool((~self.on_host & self.ran & ~self.is_comm).any())

    @cached_property
    def parent(self) -> I32:
        """For host rows, the host row that each runs inside of; -1 for none."""
        return self.trace.parent

    @cached_property
    def is_leaf(self) -> Mask:
        """Rows with nothing inside."""
        leaf = np.ones(len(self), np.bool_)
        leaf[self.parent[self.parent >= 0]] = False
        return leaf

    @cached_property
    def operator(self) -> I32:
        """The operator a row belongs to: a kernel's is the one around its launch; itself if none is."""
        own = np.arange(len(self), dtype=np.int32)
        edges = self.trace.edges
        launch = edges.where(edges.kind == 3)
        holder = own.copy()
        holder[launch.dst] = launch.src
        for _ in range(64):
            up = self.is_runtime[holder] & (self.parent[holder] >= 0)
            if not up.any():
                break
            holder = np.where(up, self.parent[holder], holder)
        return np.where(self.is_runtime[holder], own, holder).astype(np.int32)

    @cached_property
    def background(self) -> Mask:
        """Rows of threads that only call the runtime, such as those that poll for completion."""
        lane, names = self.lanes
        working = np.zeros(len(names), np.bool_)
        working[lane[~self.is_runtime]] = True
        return ~working[lane]

    @cached_property
    def lanes(self) -> tuple[I32, list[str]]:
        """Where each row ran, as a number and the lanes' names; device lanes first, then threads."""
        host, lane = self.on_host, lane_of(self.trace)
        device = np.where(host, 0, self.trace.column("device", 0))
        without = ~host & (lane == NO_LANE)
        if without.any():
            # A receive is posted and waits beside other communication; it must not hold that up.
            engine = self.kind.astype(np.int64)
            engine[self.trace.types == NodeType.COMM_RECV_NODE] = _RECEIVE
            lane[without] = _engine_lane(engine[without])
        distinct, which = _unique_rows([host, device, lane])
        return which.astype(np.int32), [_lane_name(*map(int, k)) for k in distinct]

    @cached_property
    def lane_pairs(self) -> tuple[I64, I64]:
        """(row, next row) on every serial device lane; a lane whose rows overlap is not serial.

        A simulated rank's communication without a stream starts whenever it can, as a receive does anywhere.
        """
        lane, _ = self.lanes
        receives = self.trace.types == NodeType.COMM_RECV_NODE
        beside = ~self.trace.has("stream") & (receives if self.measured else self.is_comm)
        rows = np.flatnonzero((self.kind <= Kind.COPY) & ~self.on_host & ~beside)
        rows = rows[np.lexsort((rows, self.end[rows], self.start[rows], lane[rows]))]
        same = lane[rows[1:]] == lane[rows[:-1]]
        overlap = same & (self.start[rows[1:]] < self.end[rows[:-1]] - self.tolerance_ns)
        shared = np.zeros(int(lane.max(initial=-1)) + 1, np.bool_)
        shared[lane[rows[1:][overlap]]] = True
        same &= ~shared[lane[rows[1:]]]
        return rows[:-1][same], rows[1:][same]

    def busy(self, *kinds: Kind) -> Intervals:
        """When rows of these kinds were at work; a host row that waits works at its end."""
        rows = np.flatnonzero(np.isin(self.kind, kinds))
        begin, end = self.start[rows], self.end[rows]
        late = np.flatnonzero((self.on_host & ~self.is_comm)[rows])
        begin[late] = end[late] - self.own[rows[late]]
        return Intervals.of(begin, end)

    @cached_property
    def works_on_device(self) -> Mask:
        """Rows that make up the timeline: those of the device, and communication anywhere."""
        return self.kind <= Kind.COPY


def _unique_rows(columns: list[NDArray[Any]]) -> tuple[I64, I64]:
    """Distinct rows of these columns, ascending, and which of them each row is."""
    parts = [_unique(column) for column in columns]
    varied = [(values, number) for values, number in parts if len(values) > 1]
    if len(varied) == 1:
        found, which = np.arange(len(varied[0][0])), varied[0][1]
    else:
        code = np.zeros(len(columns[0]), np.int64)
        for values, number in varied:
            code = code * len(values) + number
        found, which = _unique(code)
    numbers = np.unravel_index(found, [max(len(values), 1) for values, _ in parts])
    told = [values[n] for (values, _), n in zip(parts, numbers, strict=True)]
    return np.stack(told, axis=1).astype(np.int64), which


def _unique(values: NDArray[Any]) -> tuple[NDArray[Any], I64]:
    """As np.unique with its inverse, but by hashing: few values in millions of rows need no sorting."""
    if len(values) and values.min() == values.max():
        return values[:1], np.broadcast_to(np.int64(0), len(values))
    coded = pa.array(values).dictionary_encode()
    distinct = coded.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(distinct)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[coded.indices.to_numpy()]


def _engine_lane(engine: I64 | int) -> I64 | int:
    """The lane of an engine of the device, for rows that name no stream; and the engine of such a lane."""
    return NO_LANE - 1 - engine


def _lane_name(on_host: int, device: int, lane: int) -> str:
    if on_host:
        return "host" if lane == NO_LANE else f"thread {lane_number(lane)}"
    if lane >= 0:
        return f"device {device} stream {lane_number(lane)}"
    engine = int(_engine_lane(lane))
    return f"device {device} {'receive' if engine == _RECEIVE else Kind(engine).name.lower()}"


def rank_view(run: Run, rank: int) -> RankView:
    """The view of one rank."""
    times = None if run.times is None else run.times_of(rank)
    return view_of(rank, run.trace(rank), times, run.tick_ps)


def view_of(rank: int, trace: Trace, times: Times | None, tick_ps: int) -> RankView:
    """The view of a rank's own trace; without `times`, those in its nodes count."""
    if times is None:
        return RankView(rank, trace, trace.start_ns, trace.end_ns, True)
    check_length(len(times.start), len(trace), rank)
    start, end = whole_ns(times, tick_ps)
    return RankView(rank, trace, start, end, False)


def body_view(rank: int, body: Trace, binding: Binding, times: Times, tick_ps: int) -> RankView:
    """The same of a rank's body as it stands: ranks that share it share what is known of it.

    Of what a binding changes, views show the names of groups alone; a rank of another scale needs its own
    trace.
    """
    if binding.scale != 1.0:
        return view_of(rank, bind(body, binding), times, tick_ps)
    return replace(view_of(rank, body, times, tick_ps), groups=binding.groups)


def rank_views(run: Run) -> Iterator[RankView]:
    """All ranks, one at a time, so that a set larger than memory can be walked."""
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
