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

# What each event of a rank waited for, as the critical path walks it; of many ranks, read when needed.


_MOST_LOADED = 2_000_000
"""Rows of ranks whose events stay in memory, at some 100 bytes each, where not all of them do."""


@dataclass(eq=False)
class RankEvents:
    """What the walk needs of a rank."""

    rank: int
    start: I64
    end: I64
    own: I64
    kind: I8
    name: I32
    texts: list[str]
    operator: I32
    """The name's number of the operator each row belongs to."""
    parent: I32
    background: Mask
    causes: Causes

    @cached_property
    def ran(self) -> Mask:
        """Rows with times."""
        return self.end >= np.maximum(self.start, 0)


class LoadedEvents(Mapping[int, RankEvents]):
    """Events of many ranks, each made when the walk comes to it; the last ones stay."""

    def __init__(self, ranks: Sequence[int], load: Callable[[int], RankEvents]) -> None:
        self._ranks, self._load = ranks, load
        self._kept: dict[int, RankEvents] = {}
        self._rows = 0

    def __getitem__(self, rank: int) -> RankEvents:
        found = self._kept.pop(rank, None)
        if found is None:
            found = self._load(rank)
            self._rows += len(found.start)
            while self._kept and self._rows > _MOST_LOADED:
                self._rows -= len(self._kept.pop(next(iter(self._kept))).start)
        self._kept[rank] = found  # at the end: the first is the one not used for longest
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


def events_of(view: RankView, times: Times | None) -> RankEvents:
    """The part of one rank."""
    codes, texts = view.names
    names, operator = codes.copy(), codes[view.operator].copy()
    texts = list(texts)
    comm = np.flatnonzero(view.is_comm)
    known: dict[str, int] = {}
    groups, group_names = view.texts("pg_name")
    kinds = view.trace.column("comm_type", -1).astype(np.int64)
    keys = (view.trace.types[comm] * (kinds.max(initial=0) + 2) + kinds[comm] + 1) * (
        len(group_names) + 1
    ) + groups[comm]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    numbers = []
    for row in comm[first].tolist():
        group = group_names[groups[row]] if groups[row] >= 0 else ""
        label = f"{comm_name(view, row)} {group}".strip()
        if label not in known:
            known[label] = len(texts)
            texts.append(label)
        numbers.append(known[label])
    operator[comm] = np.array(numbers or [0], operator.dtype)[which]
    return RankEvents(
        view.rank,
        view.start,
        view.end,
        view.own,
        view.kind,
        names,
        texts,
        operator,
        view.parent,
        view.background,
        causes_of(view, times),
    )


@dataclass(frozen=True)
class RankEnd:
    """A rank's last work: its row (-1: none) and when it ended; `rows` is how many the rank has."""

    rank: int
    row: int
    time: int
    rows: int


def end_of(own: RankEvents) -> RankEnd:
    """The work of a rank that ends last; of equal ones what started last."""
    rows = np.flatnonzero(own.ran & ~own.background)
    if not len(rows):
        rows = np.flatnonzero(own.ran)
    if not len(rows):
        return RankEnd(own.rank, -1, 0, len(own.start))
    latest = int(own.end[rows].max())
    ending = rows[own.end[rows] == latest]
    return RankEnd(own.rank, int(ending[np.argmax(own.start[ending])]), latest, len(own.start))


UNEXPLAINED = "unexplained"
BACKGROUND = "background"
"""After the last work: only threads that poll still ran."""
LATE = "began later"
"""Before a rank's first row: it, or its recording, began after another's."""
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

_INSIDE = (EdgeKind.THREAD, EdgeKind.CALL, Cause.ARRIVAL)


BOUNDS: dict[str, tuple[str, ...]] = {
    "device": ("compute", "copy", "kernel gap", "lane", "event"),
    "communication": ("communication",),
    "host": ("host", "launch", "synchronization"),
}
"""What bounds a run, and which parts of its critical path speak for that."""


class Segment(Result, msgspec.Struct, frozen=True):
    """A stretch of the path: the work of a node, or a wait before or in it.

    `what` is `compute`, `communication`, `copy` or `host` for work; `launch`, `kernel gap`,
    `synchronization`, `dependency`, `event`, `recorded wait`, `began later`,
    `background` for waits, and `unexplained`.
    """

    rank: int
    row: int
    name: str
    what: str
    start_ns: int
    end_ns: int


class CriticalPath(Result, msgspec.Struct):
    """Segments without holes from the first start to the last end; their lengths sum to `length_ns`."""

    length_ns: int
    start_ns: int
    end_ns: int
    unexplained_ns: int
    rank_changes: int
    attribution: dict[str, int]
    """ns by what passed."""
    operators: list[tuple[str, str, int]]
    """(what, operator, ns), longest first."""
    by_rank: dict[int, int]
    segments: list[Segment]

    @property
    def bound(self) -> str:
        """`device`, `communication` or `host`: what most of the path is; empty for an empty path."""
        parts = {b: sum(self.attribution.get(w, 0) for w in kinds) for b, kinds in BOUNDS.items()}
        most = max(parts, key=lambda b: parts[b])
        return most if parts[most] else ""

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
    """Ends of collectives wait for the last rank to arrive, ends of messages for the other end.

    `stands_for` maps ranks without events of their own to one with the same program and times.
    """
    if stands_for:
        _stand_in(events, stands_for)
    waited = np.flatnonzero(matched.wait > 0)
    message = matched.paired[waited]
    peer = np.where(message, matched.partner[waited], matched.last[waited])
    code = np.where(message, Cause.MESSAGE, Cause.ARRIVAL).astype(np.int8)
    for rank, own in events.items():
        mine = np.flatnonzero(matched.rank[waited] == rank)
        rows, causes = matched.row[waited[mine]], own.causes
        causes.end[rows], causes.end_at_end[rows] = code[mine], False
        causes.end_row[rows] = matched.row[peer[mine]]
        causes.end_rank[rows] = _renamed(matched.rank[peer[mine]], stands_for or {})
        causes.end_when[rows] = own.end[rows]
        _inside_waits(own, rows, matched.wait[waited[mine]])


def _renamed(ranks: I64, stands_for: Mapping[int, int]) -> I64:
    if not stands_for or not len(ranks):
        return ranks
    known, which = np.unique(ranks, return_inverse=True)
    return np.array([stands_for.get(r, r) for r in known.tolist()], np.int64)[which]


def _stand_in(events: Mapping[int, RankEvents], stands_for: Mapping[int, int]) -> None:
    """What the run itself recorded may name any rank."""
    for own in events.values():
        rows = np.flatnonzero(own.causes.start_rank >= 0)
        ranks = own.causes.start_rank[rows].astype(np.int64)
        own.causes.start_rank[rows] = _renamed(ranks, stands_for)


def _inside_waits(own: RankEvents, rows: I64, wait: I64) -> None:
    """A host collective's parts that began after the last arrival waited for that as well."""
    arrived = np.full(len(own.start), -1, np.int64)
    arrived[rows] = own.start[rows] + wait
    parts = np.flatnonzero((own.parent >= 0) & own.ran)
    parts = parts[arrived[own.parent[parts]] >= 0]
    parts = parts[own.start[parts] >= arrived[own.parent[parts]]]
    if not len(parts):
        return
    parts = parts[np.lexsort((own.start[parts], own.parent[parts]))]
    around = own.parent[parts]
    first = np.r_[True, around[1:] != around[:-1]]
    causes, parts, around = own.causes, parts[first], around[first]
    causes.start[parts], causes.start_at_end[parts] = Cause.ARRIVAL, False
    causes.start_row[parts], causes.start_rank[parts] = (
        causes.end_row[around],
        causes.end_rank[around],
    )
    causes.start_when[parts] = own.start[parts]


_Event = tuple[int, int, bool]
"""(rank, row, whether its end)."""
_Piece = tuple[int, int, str, int, int]
"""(rank, row, what, from, to)."""


class _Walk:
    """Goes back in time; `pieces` are collected from the last to the first."""

    def __init__(self, events: Mapping[int, RankEvents], span: tuple[int, int]) -> None:
        self.events = events
        self.begin, self.time = span
        self.pieces: list[_Piece] = []

    def add(self, rank: int, row: int, what: str, start: int) -> None:
        """A stretch from `start` to the present moment, which becomes `start`.

        Nothing reaches back before the run began, though a cause and its lag may.
        """
        start = max(start, self.begin)
        if start < self.time:
            self.pieces.append((rank, row, what, start, self.time))
            self.time = start

    def run(self, at: _Event, most: int) -> _Event:
        """From an event to one that waited for nothing, which is returned, in at most so many steps."""
        # Causes lie before their effects but for rounding; the bound is for circles that rounding makes.
        for _ in range(most):
            before = self._from_end(at) if at[2] else self._from_start(at)
            if before is None:
                break
            at = before
        return at

    def _time_of(self, at: _Event) -> int:
        own = self.events[at[0]]
        return (own.end if at[2] else own.start).item(at[1])

    def _from_end(self, at: _Event) -> _Event | None:
        rank, row, _ = at
        own = self.events[rank]
        causes = own.causes
        code = causes.end.item(row)
        what = KIND_NAMES[own.kind.item(row)]
        self.add(rank, row, UNEXPLAINED, causes.end_when.item(row))
        if code == Cause.OWN:
            self.add(rank, row, what, own.start.item(row))
            return rank, row, False
        other = causes.end_rank.item(row)
        before = (
            rank if other < 0 else other,
            causes.end_row.item(row),
            causes.end_at_end.item(row),
        )
        wait = what if code == Cause.ARRIVAL else _WAITS.get(code, what)
        self.add(rank, row, wait, self._time_of(before))
        return before

    def _from_start(self, at: _Event) -> _Event | None:
        rank, row, _ = at
        causes = self.events[rank].causes
        code = causes.start.item(row)
        if code == Cause.NOTHING:
            return None
        other, prior = causes.start_rank.item(row), causes.start_row.item(row)
        at_end = causes.start_at_end.item(row)
        if code == Cause.RECORDED and other >= 0:
            at_end = self.events[other].end.item(prior) <= self.time
        before = (rank if other < 0 else other, prior, at_end)
        self.add(rank, row, UNEXPLAINED, causes.start_when.item(row))
        around = self.events[rank].parent.item(row)
        if code in _INSIDE and around >= 0:
            # Between the parts of a host row that row itself is at work.
            self.add(
                rank, around, KIND_NAMES[self.events[rank].kind.item(around)], self._time_of(before)
            )
        else:
            self.add(rank, row, _WAITS[code], self._time_of(before))
        return before


def walk(
    events: Mapping[int, RankEvents], ends: Iterable[RankEnd], span: tuple[int, int]
) -> CriticalPath:
    """The path that ends with the last of the ranks' `ends`, of equal ones the first rank's."""
    begin, end = span
    found = [e for e in ends if e.row >= 0]
    if not found:
        return CriticalPath(0, begin, end, 0, 0, {}, [], {}, [])
    last = max(found, key=lambda e: e.time)
    walker = _Walk(events, span)
    walker.add(last.rank, last.row, BACKGROUND, last.time)
    rank, row, _ = walker.run((last.rank, last.row, True), 2 * sum(e.rows for e in found) + 2)
    own = events[rank]
    first = int(own.start[own.ran].min())
    # What nothing in a rank's recording can explain is only how long after the others it began.
    walker.add(rank, row, UNEXPLAINED, first)
    walker.add(rank, row, LATE, begin)
    return _result(events, walker.pieces[::-1], begin, end)


def _result(
    events: Mapping[int, RankEvents], pieces: list[_Piece], begin: int, end: int
) -> CriticalPath:
    totals: dict[str, int] = {}
    ranks: dict[int, int] = {}
    operators: dict[tuple[str, str], int] = {}
    segments = []
    for rank, row, what, start, stop in pieces:
        own, length = events[rank], stop - start
        totals[what] = totals.get(what, 0) + length
        ranks[rank] = ranks.get(rank, 0) + length
        key = (what, own.texts[own.operator[row]])
        operators[key] = operators.get(key, 0) + length
        segments.append(Segment(rank, row, own.texts[own.name[row]], what, start, stop))
    order = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    changes = sum(a.rank != b.rank for a, b in itertools.pairwise(segments))
    return CriticalPath(
        sum(totals.values()),
        begin,
        end,
        totals.get(UNEXPLAINED, 0),
        changes,
        dict(sorted(totals.items(), key=lambda item: -item[1])),
        [(what, name, total) for (what, name), total in order],
        dict(sorted(ranks.items())),
        segments,
    )


def critical_path(run: Run) -> CriticalPath:
    """The critical path of a run."""
    events, calls = {}, AllCalls(run)
    for view in rank_views(run):
        events[view.rank] = events_of(view, run.times_of(view.rank))
        calls.add_view(view)
    add_peers(events, calls.matched())
    return walk(events, map(end_of, events.values()), run.span_ns)
