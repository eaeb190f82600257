"""All nodes of one rank on one clock: host threads with their nesting, device lanes in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import FormatError, listed
from chakrakit.sources.pytorch.joining import Join
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.trace.model import nested

# Transfers by the host itself, such as gloo's. A back end that moves tensors of a device through the host
# records one range around everything: the copy to the host, the transfer, the copy back. The copies are
# separate rows, with calls of the device's runtime inside. What remains between them is the transfer,
# and only that depends on other ranks and on the network.
_BACK_END = re.compile(r"^(gloo|mpi|ucc):\w+")


def transfer_times(kineto: Kineto) -> tuple[I64, I64]:
    """Start and end of all events, of a back end's records those of the longest gap inside them."""
    start, end = kineto.start, kineto.end
    records = np.flatnonzero(kineto.is_host & kineto.texts.where(_BACK_END.match)[kineto.name])
    if not len(records):
        return start, end
    start, end = start.copy(), end.copy()
    for record in records.tolist():
        start[record], end[record] = _longest_gap(kineto, record)
    return start, end


def _longest_gap(kineto: Kineto, record: int) -> tuple[int, int]:
    first, last = int(kineto.start[record]), int(kineto.end[record])
    near = kineto.is_host & (kineto.tid == kineto.tid[record]) & (kineto.pid == kineto.pid[record])
    inside = np.flatnonzero(near & (kineto.start >= first) & (kineto.end <= last))
    inside = inside[inside != record]
    if not (kineto.kind[inside] == Kind.CALL).any():
        return first, last  # tensors of the host; what else is inside has nothing to do with it
    inside = inside[np.argsort(kineto.start[inside], kind="stable")]
    ended = np.maximum.accumulate(kineto.end[inside])
    begins = np.r_[first, ended]
    ends = np.r_[kineto.start[inside], last]
    widest = int(np.argmax(ends - begins))
    return int(begins[widest]), int(max(ends[widest], begins[widest]))


Parts = tuple[NDArray[Any], ...]
"""event, operator, start, end, kind, process and thread (or device and stream) of some rows."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """One row per node, in order of start (longer first), which is also the order of the trace.

    `event` and `operator` are the rows in Kineto and in the observer, -1 for none. Host rows have a
    `thread` (dense number), device rows a `lane`; the other is -1. `parent` is the row a host row
    runs inside of, or, for a device row, the row that launched it. `astray` marks host rows that
    outlive what they began in: asynchronous work, outside its thread's order.
    """

    event: I64
    operator: I64
    start: I64
    end: I64
    kind: I8
    thread: I32
    lane: I32
    parent: I64
    astray: Mask
    thread_names: list[tuple[int, int]]
    lane_names: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def duration(self) -> I64:
        """Measured durations, with everything inside the rows."""
        return self.end - self.start

    @property
    def is_host(self) -> Mask:
        """Rows on host threads."""
        return self.thread >= 0

    def thread_order(self) -> tuple[I64, I64]:
        """Rows of every thread in order, asynchronous ones left out, and each one's predecessor.

        The predecessor is -1 for the first row of a thread.
        """
        rows = np.flatnonzero(self.is_host & ~self.astray)
        rows = rows[np.argsort(self.thread[rows], kind="stable")]
        before = np.full(len(rows), -1, np.int64)
        same = self.thread[rows[1:]] == self.thread[rows[:-1]]
        before[1:][same] = rows[:-1][same]
        return rows, before

    def lane_order(self) -> tuple[I64, I64]:
        """Rows of every device lane in order, and each one's predecessor or -1."""
        rows = np.flatnonzero(self.lane >= 0)
        rows = rows[np.argsort(self.lane[rows], kind="stable")]
        before = np.full(len(rows), -1, np.int64)
        same = self.lane[rows[1:]] == self.lane[rows[:-1]]
        before[1:][same] = rows[:-1][same]
        return rows, before

    def own_time(self) -> I64:
        """Duration less that of the rows directly inside, never below 0."""
        inside = np.flatnonzero((self.parent >= 0) & self.is_host & ~self.astray)
        outer = self.parent[inside]
        length = np.minimum(self.end[inside], self.end[outer]) - self.start[inside]
        spent = np.zeros(len(self), np.int64)
        np.add.at(spent, outer, length)
        own_ns: I64 = np.maximum(self.duration - spent, 0)
        return own_ns

    def is_leaf(self) -> Mask:
        """Host rows with nothing inside, and all device rows."""
        leaf = np.ones(len(self), np.bool_)
        inside = (self.parent >= 0) & self.is_host & ~self.astray
        leaf[self.parent[inside]] = False
        return leaf


def _dense(*keys: I64) -> tuple[I32, list[tuple[int, int]]]:
    table, number = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    return number.ravel().astype(np.int32), [(int(a), int(b)) for a, b in table]


def build_timeline(observer: Observer | None, kineto: Kineto | None, joined: Join) -> Timeline:
    """Every host and device event of Kineto, and the observer's operators that have none."""
    parts = [_kineto_part(kineto, joined)] if kineto is not None else []
    # In two passes, what only the observer saw has no place among the other pass's times.
    if observer is not None and joined.operator_of is None:
        parts.append(_placed_part(observer, kineto, joined))
    event, operator, start, end, kind, pid, tid = (
        np.concatenate(c) for c in zip(*parts, strict=True)
    )
    order = np.lexsort((operator, -end, start))
    event, operator, start, end, kind, pid, tid = (
        c[order] for c in (event, operator, start, end, kind, pid, tid)
    )
    device = (kind >= Kind.KERNEL) & (kind <= Kind.MEMSET)
    thread = np.full(len(start), -1, np.int32)
    lane = np.full(len(start), -1, np.int32)
    thread[~device], threads = _dense(pid[~device], tid[~device])
    lane[device], lanes = _dense(pid[device], tid[device])
    parent, astray = _nesting(thread, start, end, kind)
    line = Timeline(
        event=event,
        operator=operator,
        start=start,
        end=end,
        kind=kind,
        thread=thread,
        lane=lane,
        parent=parent,
        astray=astray,
        thread_names=threads,
        lane_names=lanes,
    )
    if kineto is None and observer is not None:
        _nest_as_written(line, observer)
    return line


def _kineto_part(kineto: Kineto, joined: Join) -> Parts:
    rows = np.flatnonzero(kineto.is_host | kineto.is_device)
    operator = joined.operators(len(kineto))
    device = kineto.is_device[rows]
    pid = np.where(device, np.maximum(kineto.device[rows], 0), kineto.pid[rows])
    tid = np.where(device, kineto.stream[rows], kineto.tid[rows])
    start, end = transfer_times(kineto)
    return (rows, operator[rows], start[rows], end[rows], kineto.kind[rows], pid, tid)


def _placed_part(observer: Observer, kineto: Kineto | None, joined: Join) -> Parts:
    """Operators without times, put where the next operator of their thread starts."""
    rows = np.flatnonzero(observer.is_operator & (joined.event_of < 0))
    when = np.zeros(len(rows), np.int64)
    pid = np.zeros(len(rows), np.int64)
    tid = observer.tid[rows]
    paired = np.flatnonzero(joined.event_of >= 0)
    if kineto is not None and len(paired) and len(rows):
        place = np.minimum(np.searchsorted(paired, rows), len(paired) - 1)
        nearest = joined.event_of[paired[place]]
        when, pid, tid = kineto.start[nearest], kineto.pid[nearest], kineto.tid[nearest]
    none = np.full(len(rows), -1, np.int64)
    kind = np.full(len(rows), Kind.OPERATOR, np.int8)
    return none, rows, when, when, kind, pid, tid


def _nesting(thread: I32, start: I64, end: I64, kind: I8) -> tuple[I64, Mask]:
    parent = np.full(len(start), -1, np.int64)
    astray = np.zeros(len(start), np.bool_)
    rows = np.flatnonzero(thread >= 0)
    outer, outlives = nested(thread[rows], start[rows], end[rows])
    inside = outer >= 0
    parent[rows[inside]] = rows[outer[inside]]
    astray[rows] = outlives & (kind[rows] != Kind.CALL)
    return parent, astray


def _nest_as_written(line: Timeline, observer: Observer) -> None:
    """Set parents as the observer wrote them, which is all there is without times."""
    row_of = np.full(len(observer), -1, np.int64)
    row_of[line.operator] = np.arange(len(line))
    ids = observer.id
    place = np.minimum(np.searchsorted(ids, observer.parent), len(ids) - 1)
    has_parent = ids[place] == observer.parent
    line.parent[:] = np.where(has_parent, row_of[place], -1)[line.operator]
    _refuse_circles(line.parent, ids[line.operator])


def _refuse_circles(parent: I64, ids: I64) -> None:
    """Raises an error that names the nodes of a circle, if there is one: rows that nothing is outside of."""
    above = parent.copy()
    inner = np.flatnonzero(above >= 0)
    for _ in range(len(parent).bit_length()):  # each look reaches twice as far up
        above[inner] = above[above[inner]]
        inner = inner[above[inner] >= 0]
    if not len(inner):
        return
    row = int(above[inner[0]])  # having gone up so far, it lies on the circle itself
    circle = [row]
    while (outer := int(parent[circle[-1]])) != row:
        circle.append(outer)
    whose = f"nodes {listed(ids[circle].tolist())} are each other's parents"
    if len(circle) == 1:
        whose = f"node {ids[row]} is its own parent"
    raise FormatError(
        f"{whose} (`ctrl_deps`), so that nothing is outside; the file is damaged, record it again"
    )


class TimelineNames:
    """The name of every row of a timeline, from Kineto or, where it has none, from the observer."""

    def __init__(self, line: Timeline, observer: Observer | None, kineto: Kineto | None) -> None:
        ours = kineto.texts.strings if kineto is not None else []
        theirs = observer.texts.strings if observer is not None else []
        self.strings = [*ours, *theirs]
        number = np.zeros(len(line), np.int64)
        timed = line.event >= 0
        if kineto is not None:
            number[timed] = kineto.name[line.event[timed]]
        if observer is not None:
            number[~timed] = observer.name[line.operator[~timed]] + len(ours)
        self.number = number

    def __getitem__(self, row: int) -> str:
        return self.strings[int(self.number[row])]

    def where(self, test: Callable[[str], Any]) -> Mask:
        """Rows whose name passes the test, which sees every distinct name once."""
        used = np.unique(self.number)
        passed = np.zeros(len(self.strings), np.bool_)
        passed[used] = [bool(test(self.strings[n])) for n in used]
        return passed[self.number]

    def matching(self, pattern: str) -> Mask:
        """Rows in whose name the regular expression is found."""
        return self.where(re.compile(pattern).search)

    def column(self) -> pa.Array:
        """The names as a dictionary column, only those in use."""
        used, index = np.unique(self.number, return_inverse=True)
        words = pa.array([self.strings[n] for n in used], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), words)


def inherit(line: Timeline, values: I64) -> I64:
    """Each row's own value, or else that of the nearest row above it that has one; -1 for none."""
    out, above = values.copy(), line.parent.copy()
    open_rows = np.flatnonzero((out < 0) & (above >= 0))
    while len(open_rows):  # each look reaches twice as far up, however deep rows are nested
        outer = above[open_rows]
        inherited = out[outer]
        out[open_rows] = inherited
        above[open_rows] = np.where(inherited < 0, above[outer], -1)
        open_rows = open_rows[above[open_rows] >= 0]
    return out


def nearest(line: Timeline, marked: Mask) -> I64:
    """The nearest marked row at or above each row; -1 for none."""
    return inherit(line, np.where(marked, np.arange(len(line)), -1))
