"""The critical path across ranks: from the last end back to the first start, every moment named.

Each step goes from an event to what it waited for last (see `causes`): an edge, the row before on a
lane, the last rank to arrive at a collective, the sender of a message. What passes in between is the
work of a node or a wait with a name; what nothing explains is called so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.insight.communication import AllCalls, Matched
from chakrakit.insight.rank import (
    KIND_NAMES,
    Cause,
    Causes,
    RankView,
    Table,
    causes_of,
    comm_name,
    ms,
    percent,
    rank_views,
)
from chakrakit.results import Result
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.sets import Run, Times

_MOST_LOADED = 2_000_000
"""Rows whose events stay in memory where not all ranks fit: 200 MB at some 100 bytes each."""


@dataclass(eq=False, kw_only=True)
class RankEvents:
    """The rows of one rank as the walk needs them: times, names, parents and causes."""

    rank: int
    start: I64
    end: I64
    own: I64
    kind: I8
    name: I32
    texts: list[str]
    operator: I32
    """The operator that each row belongs to, as an index into `texts`."""
    parent: I32
    background: Mask
    causes: Causes

    @cached_property
    def ran(self) -> Mask:
        """Rows with times."""
        return self.end >= np.maximum(self.start, 0)


class LoadedEvents(Mapping[int, RankEvents]):
    """Events of many ranks, loaded when the walk reaches them; those used last stay in memory."""

    def __init__(self, ranks: Sequence[int], load: Callable[[int], RankEvents]) -> None:
        self._ranks, self._load = ranks, load
        self._loaded: dict[int, RankEvents] = {}
        self._rows = 0

    def __getitem__(self, rank: int) -> RankEvents:
        events = self._loaded.pop(rank, None)
        if events is None:
            events = self._load(rank)
            self._rows += len(events.start)
            while self._loaded and self._rows > _MOST_LOADED:
                self._rows -= len(self._loaded.pop(next(iter(self._loaded))).start)
        self._loaded[rank] = events  # at the end: the first is the one not used for longest
        return events

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


def events_of(view: RankView, times: Times | None) -> RankEvents:
    """The events of one rank; communication is called by its type and group."""
    names = view.names[0].copy()
    _, called, texts = view.called(np.arange(len(view)))
    operator = called.astype(np.int32)
    comm = np.flatnonzero(view.is_comm)
    label_codes: dict[str, int] = {}
    groups, group_names = view.texts("pg_name")
    kinds = view.trace.column("comm_type", -1).astype(np.int64)
    keys = (view.trace.types[comm] * (kinds.max(initial=0) + 2) + kinds[comm] + 1) * (
        len(group_names) + 1
    ) + groups[comm]
    _, first, label_of = np.unique(keys, return_index=True, return_inverse=True)
    numbers = []
    for row in comm[first].tolist():
        group = group_names[groups[row]] if groups[row] >= 0 else ""
        label = f"{comm_name(view, row)} {group}".strip()
        if label not in label_codes:
            label_codes[label] = len(texts)
            texts.append(label)
        numbers.append(label_codes[label])
    operator[comm] = np.array(numbers or [0], operator.dtype)[label_of]
    return RankEvents(
        rank=view.rank,
        start=view.start,
        end=view.end,
        own=view.own,
        kind=view.kind,
        name=names,
        texts=texts,
        operator=operator,
        parent=view.parent,
        background=view.background,
        causes=causes_of(view, times),
    )


@dataclass(frozen=True)
class RankEnd:
    """A rank's last work: its row (-1: none) and when it ended; `rows` counts all rows of the rank."""

    rank: int
    row: int
    time: int
    rows: int


def end_of(events: RankEvents) -> RankEnd:
    """The work of a rank that ends last; of several that end together, the one that started last."""
    rows = np.flatnonzero(events.ran & ~events.background)
    if not len(rows):
        rows = np.flatnonzero(events.ran)
    if not len(rows):
        return RankEnd(events.rank, -1, 0, len(events.start))
    latest = int(events.end[rows].max())
    ending = rows[events.end[rows] == latest]
    return RankEnd(
        events.rank, int(ending[np.argmax(events.start[ending])]), latest, len(events.start)
    )


UNEXPLAINED = "unexplained"
BACKGROUND = "background"
"""Time after the last work, in which only polling threads still ran."""
LATE = "began later"
"""Time before a rank's first row: the rank, or its recording, began after another one."""
_WAITS: dict[int, str] = {
    EdgeKind.LAUNCH: "launch",
    EdgeKind.STREAM: "kernel gap",
    EdgeKind.THREAD: "host",
    EdgeKind.CALL: "host",
    EdgeKind.AUTOGRAD: "host",
    EdgeKind.SYNC: "synchronization",
    EdgeKind.EVENT: "event",
    EdgeKind.TENSOR: "dependency",
    EdgeKind.DATA: "dependency",
    EdgeKind.CTRL: "dependency",
    EdgeKind.INFERRED: UNEXPLAINED,
    Cause.RECORDED: "recorded wait",
    Cause.LANE: "lane",
    Cause.ARRIVAL: "communication",
}

_ON_THREAD = (EdgeKind.THREAD, EdgeKind.CALL, Cause.ARRIVAL)
"""Causes after which the thread itself was at work: in the row around, or in one that was ending."""


class Segment(Result, msgspec.Struct, frozen=True, gc=False):
    """A stretch of the path: the work of a node, or a wait before or in it.

    `what` is `compute`, `communication`, `copy`, `host`, `load` or `save` (of a store) for work;
    `launch`, `kernel gap`, `synchronization`, `dependency`, `event`, `recorded wait`, `began later`,
    `background` for waits, and `unexplained`.
    """

    rank: int
    row: int
    name: str
    what: str
    start_ns: int
    end_ns: int


class CriticalPath(Result, msgspec.Struct, kw_only=True):
    """Segments without holes from the first start to the last end; their lengths sum to `length_ns`."""

    length_ns: int
    start_ns: int
    end_ns: int
    unexplained_ns: int
    rank_changes: int
    attribution: dict[str, int]
    """ns by kind of work or wait (`what` of the segments), longest first."""
    operators: list[tuple[str, str, int]]
    """(what, operator, ns), longest first."""
    by_rank: dict[int, int]
    segments: list[Segment]

    def table(self) -> Table:
        """Where the path's time goes."""
        rows = [(w, ms(n), percent(n, self.length_ns)) for w, n in self.attribution.items()]
        return Table.of(
            f"critical path: {ms(self.length_ns):,} ms, {len(self.segments):,} segments, "
            f"{self.rank_changes} changes of rank",
            ("what", "ms", "%"),
            rows,
        )


def add_peers(
    events: Mapping[int, RankEvents], matched: Matched, stands_for: Mapping[int, int] | None = None
) -> None:
    """Adds waits for peers to the causes of events, in place.

    The end of a collective waits for the last rank to arrive, the end of a message for its other end.
    `stands_for` maps ranks without events to one with the same program and times.
    """
    if stands_for:
        _stand_in(events, stands_for)
    waited = np.flatnonzero(matched.wait > 0)
    message = matched.paired[waited]
    peer = np.where(message, matched.partner[waited], matched.last[waited])
    code = np.where(message, Cause.MESSAGE, Cause.ARRIVAL).astype(np.int8)
    for rank, rank_events in events.items():
        mine = np.flatnonzero(matched.rank[waited] == rank)
        rows, causes = matched.row[waited[mine]], rank_events.causes
        causes.end[rows], causes.end_at_end[rows] = code[mine], False
        causes.end_row[rows] = matched.row[peer[mine]]
        causes.end_rank[rows] = _representatives(matched.rank[peer[mine]], stands_for or {})
        causes.end_when[rows] = rank_events.end[rows]
        _inside_waits(rank_events, rows, matched.wait[waited[mine]])


def _representatives(ranks: I64, stands_for: Mapping[int, int]) -> I64:
    if not stands_for or not len(ranks):
        return ranks
    distinct, place = np.unique(ranks, return_inverse=True)
    return np.array([stands_for.get(r, r) for r in distinct.tolist()], np.int64)[place]


def _stand_in(events: Mapping[int, RankEvents], stands_for: Mapping[int, int]) -> None:
    """Replaces ranks in recorded causes by those that stand for them, in place."""
    for rank_events in events.values():
        rows = np.flatnonzero(rank_events.causes.start_rank >= 0)
        ranks = rank_events.causes.start_rank[rows].astype(np.int64)
        rank_events.causes.start_rank[rows] = _representatives(ranks, stands_for)


def _inside_waits(events: RankEvents, rows: I64, wait: I64) -> None:
    """Marks rows inside a host collective that began after the last arrival as having waited for it."""
    arrived = np.full(len(events.start), -1, np.int64)
    arrived[rows] = events.start[rows] + wait
    parts = np.flatnonzero((events.parent >= 0) & events.ran)
    parts = parts[arrived[events.parent[parts]] >= 0]
    parts = parts[events.start[parts] >= arrived[events.parent[parts]]]
    if not len(parts):
        return
    parts = parts[np.lexsort((events.start[parts], events.parent[parts]))]
    around = events.parent[parts]
    first = np.r_[True, around[1:] != around[:-1]]
    causes, parts, around = events.causes, parts[first], around[first]
    causes.start[parts], causes.start_at_end[parts] = Cause.ARRIVAL, False
    causes.start_row[parts], causes.start_rank[parts] = (
        causes.end_row[around],
        causes.end_rank[around],
    )
    causes.start_when[parts] = events.start[parts]


_Event = tuple[int, int, bool]
"""(rank, row, True for the end of the row and False for its start)."""
_Piece = tuple[int, int, str, int, int]
"""(rank, row, kind of work or wait, from, to)."""


class _Walk:
    """Walks from the end of a run back in time, and collects `pieces` from the last to the first."""

    def __init__(self, events: Mapping[int, RankEvents], span: tuple[int, int]) -> None:
        self.events = events
        self.begin, self.time = span
        self.pieces: list[_Piece] = []

    def add(self, rank: int, row: int, activity: str, start: int) -> None:
        """Adds the stretch from `start` to the walk's present time, which becomes `start`.

        A stretch never begins before the run, even if its cause lies earlier.
        """
        start = max(start, self.begin)
        if start < self.time:
            self.pieces.append((rank, row, activity, start, self.time))
            self.time = start

    def run(self, at: _Event, most: int) -> _Event:
        """Walks from an event to one that waited for nothing, in at most `most` steps, and returns that."""
        # Causes precede their effects except for rounding, which can close a circle: hence the bound.
        for _ in range(most):
            before = self._from_end(at) if at[2] else self._from_start(at)
            if before is None:
                break
            at = before
        return at

    def _time_of(self, at: _Event) -> int:
        events = self.events[at[0]]
        return (events.end if at[2] else events.start).item(at[1])

    def _from_end(self, at: _Event) -> _Event | None:
        rank, row, _ = at
        events = self.events[rank]
        causes = events.causes
        code = causes.end.item(row)
        activity = KIND_NAMES[events.kind.item(row)]
        self.add(rank, row, UNEXPLAINED, causes.end_when.item(row))
        if code == Cause.OWN:
            self.add(rank, row, activity, events.start.item(row))
            return rank, row, False
        peer = causes.end_rank.item(row)
        before = (rank if peer < 0 else peer, causes.end_row.item(row), causes.end_at_end.item(row))
        wait = activity if code == Cause.ARRIVAL else _WAITS.get(code, activity)
        self.add(rank, row, wait, self._time_of(before))
        return before

    def _from_start(self, at: _Event) -> _Event | None:
        rank, row, _ = at
        causes = self.events[rank].causes
        code = causes.start.item(row)
        if code == Cause.NOTHING:
            return None
        peer, prior = causes.start_rank.item(row), causes.start_row.item(row)
        at_end = causes.start_at_end.item(row)
        if code == Cause.RECORDED and peer >= 0:
            at_end = self.events[peer].end.item(prior) <= self.time
        before = (rank if peer < 0 else peer, prior, at_end)
        self.add(rank, row, UNEXPLAINED, causes.start_when.item(row))
        if code in _ON_THREAD:
            self._between_rows(rank, row, _WAITS[code], before)
        else:
            self.add(rank, row, _WAITS[code], self._time_of(before))
        return before

    def _between_rows(self, rank: int, row: int, wait: str, before: _Event) -> None:
        """Adds a host thread's time between an event and the start of a row.

        First comes what is left of the rows around the event that ended meanwhile: an operator may compute
        after the last row inside it has ended. The rest is the own time of the row around both, or the wait
        of the row itself where nothing is around it.
        """
        events, ended = self.events[rank], []
        around = events.parent.item(row)
        if before[0] == rank and before[2]:
            outer = events.parent.item(before[1])
            while outer >= 0 and outer != around and events.end.item(outer) <= self.time:
                ended.append(outer)
                outer = events.parent.item(outer)
        begins = [*(events.end.item(outer) for outer in ended[::-1]), self._time_of(before)]
        holder = (around, KIND_NAMES[events.kind.item(around)]) if around >= 0 else (row, wait)
        own = [(outer, KIND_NAMES[events.kind.item(outer)]) for outer in ended[::-1]]
        for (at_work, activity), begin in zip((holder, *own), begins, strict=True):
            self.add(rank, at_work, activity, begin)


def walk(
    events: Mapping[int, RankEvents], ends: Iterable[RankEnd], span: tuple[int, int]
) -> CriticalPath:
    """The critical path that ends with the latest of `ends`; of equal ones, that of the first rank."""
    begin, end = span
    timed_ends = [e for e in ends if e.row >= 0]
    if not timed_ends:
        return CriticalPath(
            length_ns=0,
            start_ns=begin,
            end_ns=end,
            unexplained_ns=0,
            rank_changes=0,
            attribution={},
            operators=[],
            by_rank={},
            segments=[],
        )
    last = max(timed_ends, key=lambda e: e.time)
    walker = _Walk(events, span)
    walker.add(last.rank, last.row, BACKGROUND, last.time)
    rank, row, _ = walker.run((last.rank, last.row, True), 2 * sum(e.rows for e in timed_ends) + 2)
    rank_events = events[rank]
    first = int(rank_events.start[rank_events.ran].min())
    # Time before the rank's first row only shows that its recording began after the others'.
    walker.add(rank, row, UNEXPLAINED, first)
    walker.add(rank, row, LATE, begin)
    return _assembled(events, walker.pieces[::-1], begin, end)


def _assembled(
    events: Mapping[int, RankEvents], pieces: list[_Piece], begin: int, end: int
) -> CriticalPath:
    totals: dict[str, int] = {}
    ranks: dict[int, int] = {}
    operators: dict[tuple[str, str], int] = {}
    segments = []
    for rank, row, activity, start, stop in pieces:
        rank_events, length = events[rank], stop - start
        totals[activity] = totals.get(activity, 0) + length
        ranks[rank] = ranks.get(rank, 0) + length
        key = (activity, rank_events.texts[rank_events.operator[row]])
        operators[key] = operators.get(key, 0) + length
        segments.append(
            Segment(rank, row, rank_events.texts[rank_events.name[row]], activity, start, stop)
        )
    order = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    changes = sum(a.rank != b.rank for a, b in itertools.pairwise(segments))
    return CriticalPath(
        length_ns=sum(totals.values()),
        start_ns=begin,
        end_ns=end,
        unexplained_ns=totals.get(UNEXPLAINED, 0),
        rank_changes=changes,
        attribution=dict(sorted(totals.items(), key=lambda item: -item[1])),
        operators=[(activity, name, total) for (activity, name), total in order],
        by_rank=dict(sorted(ranks.items())),
        segments=segments,
    )


def critical_path(run: Run) -> CriticalPath:
    """The critical path of a run."""
    events, calls = {}, AllCalls(run)
    for view in rank_views(run):
        events[view.rank] = events_of(view, run.times_of(view.rank))
        calls.add_view(view)
    add_peers(events, calls.matched())
    return walk(events, map(end_of, events.values()), run.span_ns)
