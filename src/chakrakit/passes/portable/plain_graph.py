"""Plain graph: pieces with dependencies that all mean "starts after the end of", and gaps as nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.passes.portable.pieces import Pieces, TimedRows, cut
from chakrakit.trace.model import EdgeForm

GAP = -1
"""The row of a gap: a time in which the rank waits for nothing that the trace knows."""


@dataclass(frozen=True, eq=False)
class PlainGraph:
    """Nodes in an order that dependencies follow, with times in ns and edges between places in it."""

    row: I64
    """The row each node is a piece of, or GAP."""
    start: I64
    end: I64
    src: I64
    dst: I64
    dropped: int
    """Dependencies that the times contradict even so."""


def plain_graph(rows: TimedRows, begin: int, finish: int) -> PlainGraph:
    """The rank as a plain graph whose longest path runs from `begin` to `finish`."""
    pieces = cut(rows)
    parents, dropped = _parents(rows, pieces)
    return _with_gaps(pieces, parents, begin, finish, dropped)


def _parents(rows: TimedRows, pieces: Pieces) -> tuple[dict[int, set[int]], int]:
    """For each piece the pieces that end before it starts and that it depends on."""
    first = np.searchsorted(pieces.row, np.arange(len(rows.start)))
    after = np.searchsorted(pieces.row, np.arange(len(rows.start)), side="right")
    found: dict[int, set[int]] = defaultdict(set)
    before = _order_on_lanes(rows, pieces, found)
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
            found[child].add(parent)
    return found, dropped


def _target(pieces: Pieces, first: int, after: int, form: int, source_end: int) -> int:
    """The piece an edge leads to: the first, or the one that goes on after the wait."""
    if form == EdgeForm.FINISH_FINISH:
        for piece in range(first, after):
            if pieces.start[piece] >= source_end:
                return piece
        return after - 1
    return first


def _source(pieces: Pieces, first: int, after: int, limit: int) -> int | None:
    """The last piece of a row that has ended by `limit`; None where none has."""
    found = None
    for piece in range(first, after):
        if pieces.end[piece] > limit:
            break
        found = piece
    return found


def _order_on_lanes(rows: TimedRows, pieces: Pieces, found: dict[int, set[int]]) -> dict[int, int]:
    """Adds the order of each lane to `found`; gives the piece before each one."""
    lane = rows.lane[pieces.row]
    order = np.lexsort((pieces.end, pieces.start, lane))
    before: dict[int, int] = {}
    for previous, piece in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        if lane[previous] == lane[piece] >= 0 and pieces.end[previous] <= pieces.start[piece]:
            before[piece] = previous
            found[piece].add(previous)
    return before


class _Nodes:
    """Nodes and edges as they are put together."""

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
        """The parents, and a gap where all of them have ended before `until`."""
        ready = max((self.end[p] for p in parents), default=begin)
        if ready >= until:
            return parents
        latest = [p for p in parents if self.end[p] == ready]
        return [*parents, self.add(GAP, ready, until, latest)]


class _Places:
    """Which node each piece has become; parents that start and end at the same moment are put first."""

    def __init__(self, count: int) -> None:
        self.of = np.full(count, -1, np.int64)

    def put(
        self, piece: int, nodes: _Nodes, pieces: Pieces, parents: dict[int, set[int]], begin: int
    ) -> None:
        waiting = [piece]
        while waiting:
            one = waiting[-1]
            later = [p for p in parents.get(one, ()) if self.of[p] < 0 and p not in waiting]
            if self.of[one] < 0 and later:
                waiting += later
                continue
            waiting.pop()
            if self.of[one] < 0:
                known = sorted(int(self.of[p]) for p in parents.get(one, ()) if self.of[p] >= 0)
                start, end = int(pieces.start[one]), int(pieces.end[one])
                ready = nodes.after_gap(known, begin, start)
                self.of[one] = nodes.add(int(pieces.row[one]), start, end, ready)


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
