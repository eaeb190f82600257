"""Plain graph: a rank's rows in pieces whose dependencies all mean "starts after the end of"; gaps are nodes.

A plain reader knows one rule: a node starts when all it depends on has ended. A host operator breaks it:
what it calls starts inside it, kernels start while it still runs, and it waits for others before it ends.
So host threads become chains of pieces, each of one operator's own work, cut where something starts from
them or where they wait; device rows and communication stay whole.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import EdgeForm, Edges


@dataclass(frozen=True, eq=False)
class TimedRows:
    """A rank's rows with their times in ns: what is cut into pieces."""

    start: I64
    end: I64
    own_ns: I64
    """Own time in ns; less than the duration where a host row waits."""
    threaded: Mask
    """Host rows other than communication, which share their thread."""
    lane: I64
    ran: Mask
    edges: Edges


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces as parallel arrays, sorted by row and then by start."""

    row: I64
    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.row)


def cut(rows: TimedRows) -> Pieces:
    """Returns all pieces of a rank; every row that ran has at least one."""
    at = _cut_times(rows)
    pieces: list[tuple[int, int, int]] = []
    for row, start, end in _segments(rows):
        pieces += _cut_segment(rows, row, start, end, at.get(row, ()))
    whole = np.flatnonzero(rows.ran & ~rows.threaded)
    pieces += zip(whole.tolist(), rows.start[whole].tolist(), rows.end[whole].tolist(), strict=True)
    pieces += _missing(rows, {row for row, _, _ in pieces})
    table = np.array(sorted(pieces), np.int64).reshape(-1, 3)
    return Pieces(table[:, 0], table[:, 1], table[:, 2])


def _missing(rows: TimedRows, cut_rows: set[int]) -> list[tuple[int, int, int]]:
    """Returns one empty piece for each threaded row that its callees fill entirely."""
    return [
        (row, int(rows.start[row]), int(rows.start[row]))
        for row in np.flatnonzero(rows.ran & rows.threaded).tolist()
        if row not in cut_rows
    ]


def _cut_times(rows: TimedRows) -> dict[int, list[int]]:
    """Returns for each threaded row the times where something starts from it or it waits for something."""
    times: dict[int, list[int]] = {}
    e = rows.edges
    starts = e.form == EdgeForm.START_START
    for row, lag in zip(e.src[starts].tolist(), e.lag[starts].tolist(), strict=True):
        if rows.threaded[row]:
            times.setdefault(row, []).append(int(rows.start[row]) + lag)
    waits = (e.form == EdgeForm.FINISH_FINISH) & rows.ran[e.src]
    for source, row in zip(e.src[waits].tolist(), e.dst[waits].tolist(), strict=True):
        if rows.threaded[row]:
            times.setdefault(row, []).append(int(rows.end[source]))
    return times


def _segments(rows: TimedRows) -> list[tuple[int, int, int]]:
    """Cuts each thread into (row, from, to), where row is the innermost operator that runs at the time."""
    segments: list[tuple[int, int, int]] = []
    mine = np.flatnonzero(rows.ran & rows.threaded)
    order = mine[np.lexsort((mine, -rows.end[mine], rows.start[mine], rows.lane[mine]))]
    stack: list[list[int]] = []  # [row, end, how far its own segments go]

    def close(until: int) -> None:
        while stack and stack[-1][1] <= until:
            row, end, covered = stack.pop()
            if end > covered:
                segments.append((row, covered, end))
            if stack:
                stack[-1][2] = max(stack[-1][2], end)

    lane = None
    for row in order.tolist():
        start, end = int(rows.start[row]), int(rows.end[row])
        if rows.lane[row] != lane:
            close(2**62)
            lane = rows.lane[row]
        close(start)
        if stack:
            end = min(end, stack[-1][1])
            if start > stack[-1][2]:
                segments.append((stack[-1][0], stack[-1][2], start))
        stack.append([row, end, start])
    close(2**62)
    return segments


def _cut_segment(
    rows: TimedRows, row: int, start: int, end: int, at: list[int] | tuple[()]
) -> list[tuple[int, int, int]]:
    """Cuts a segment at the times inside it; where its row waits, the wait is left out."""
    inside = sorted({t for t in at if start < t < end})
    bounds = [start, *inside, end]
    waited = int(rows.end[row] - rows.start[row] - rows.own_ns[row])
    whole = start == rows.start[row] and end == rows.end[row]
    if not (whole and waited > 0 and inside):
        return [(row, a, b) for a, b in itertools.pairwise(bounds)]
    last = bounds[-2]
    worked = max(int(rows.own_ns[row]) - (end - last), 0)  # before it began to wait
    first = [(row, start, min(start + worked, last))]
    return [*first, (row, last, end)]


GAP = -1
"""The row of a gap: a time in which the rank waits for nothing that the trace records."""


@dataclass(frozen=True, eq=False)
class PlainGraph:
    """Nodes in topological order, with times in ns and edges between their places in that order."""

    row: I64
    """The row each node is a piece of, or GAP."""
    start: I64
    end: I64
    src: I64
    dst: I64
    dropped: int
    """How many dependencies the times contradict."""


def plain_graph(rows: TimedRows, begin: int, finish: int) -> PlainGraph:
    """Returns the rank as a plain graph whose longest path runs from `begin` to `finish`."""
    pieces = cut(rows)
    parents, dropped = _parents(rows, pieces)
    return _with_gaps(pieces, parents, begin, finish, dropped)


def _parents(rows: TimedRows, pieces: Pieces) -> tuple[dict[int, set[int]], int]:
    """Returns the pieces that each piece depends on, and how many edges the times contradict."""
    first = np.searchsorted(pieces.row, np.arange(len(rows.start)))
    after = np.searchsorted(pieces.row, np.arange(len(rows.start)), side="right")
    parents: dict[int, set[int]] = defaultdict(set)
    before = _order_on_lanes(rows, pieces, parents)
    dropped = 0
    e = rows.edges
    for u, v, form, lag in zip(
        e.src.tolist(), e.dst.tolist(), e.form.tolist(), e.lag.tolist(), strict=True
    ):
        if not (rows.ran[u] and rows.ran[v]):
            continue
        child = _target(pieces, int(first[v]), int(after[v]), form, int(rows.end[u]))
        limit = int(pieces.start[child])
        if form == EdgeForm.START_START:
            limit = min(limit, int(rows.start[u]) + lag)
        parent = _source(pieces, int(first[u]), int(after[u]), limit)
        if parent is None and form == EdgeForm.START_START:
            parent = before.get(int(first[u]))
        if parent is None:
            dropped += int(pieces.end[int(after[u]) - 1] > limit)
        elif parent != child:
            parents[child].add(parent)
    return parents, dropped


def _target(pieces: Pieces, first: int, after: int, form: int, source_end: int) -> int:
    """Returns the piece an edge leads to: a row's first, or the one that goes on after the wait."""
    if form == EdgeForm.FINISH_FINISH:
        for piece in range(first, after):
            if pieces.start[piece] >= source_end:
                return piece
        return after - 1
    return first


def _source(pieces: Pieces, first: int, after: int, limit: int) -> int | None:
    """Returns the last piece of a row that has ended by `limit`, or None."""
    last = None
    for piece in range(first, after):
        if pieces.end[piece] > limit:
            break
        last = piece
    return last


def _order_on_lanes(
    rows: TimedRows, pieces: Pieces, parents: dict[int, set[int]]
) -> dict[int, int]:
    """Adds the order of each lane to `parents`; returns the piece before each piece."""
    lane = rows.lane[pieces.row]
    order = np.lexsort((pieces.end, pieces.start, lane))
    before: dict[int, int] = {}
    for previous, piece in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        if lane[previous] == lane[piece] >= 0 and pieces.end[previous] <= pieces.start[piece]:
            before[piece] = previous
            parents[piece].add(previous)
    return before


class _Nodes:
    """Collects nodes and edges."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, row: int, start: int, end: int, parents: list[int]) -> int:
        number = len(self.row)
        self.row.append(row)
        self.start.append(start)
        self.end.append(end)
        self.edges += ((p, number) for p in parents)
        return number

    def after_gap(self, parents: list[int], begin: int, until: int) -> list[int]:
        """Returns the parents, and a new gap node if all of them end before `until`."""
        ready = max((self.end[p] for p in parents), default=begin)
        if ready >= until:
            return parents
        latest = [p for p in parents if self.end[p] == ready]
        return [*parents, self.add(GAP, ready, until, latest)]


class _Places:
    """Which node each piece has become; of pieces at the same time, parents become nodes first."""

    def __init__(self, count: int) -> None:
        self.of = np.full(count, -1, np.int64)

    def put(
        self, piece: int, nodes: _Nodes, pieces: Pieces, parents: dict[int, set[int]], begin: int
    ) -> None:
        waiting = [piece]
        while waiting:
            current = waiting[-1]
            later = [p for p in parents.get(current, ()) if self.of[p] < 0 and p not in waiting]
            if self.of[current] < 0 and later:
                waiting += later
                continue
            waiting.pop()
            if self.of[current] < 0:
                placed_parents = sorted(
                    int(self.of[p]) for p in parents.get(current, ()) if self.of[p] >= 0
                )
                start, end = int(pieces.start[current]), int(pieces.end[current])
                ready = nodes.after_gap(placed_parents, begin, start)
                self.of[current] = nodes.add(int(pieces.row[current]), start, end, ready)


def _with_gaps(
    pieces: Pieces, parents: dict[int, set[int]], begin: int, finish: int, dropped: int
) -> PlainGraph:
    nodes, place = _Nodes(), _Places(len(pieces))
    for piece in np.lexsort((pieces.end, pieces.start)).tolist():
        place.put(piece, nodes, pieces, parents, begin)
    if nodes.row:
        last = int(np.argmax(nodes.end))
        nodes.after_gap([last], begin, finish)
    edges = np.array(nodes.edges, np.int64).reshape(-1, 2)
    row, start, end = (np.array(a, np.int64) for a in (nodes.row, nodes.start, nodes.end))
    return PlainGraph(row, start, end, edges[:, 0], edges[:, 1], dropped)
