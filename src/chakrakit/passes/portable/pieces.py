"""Pieces: the rows of a rank cut so that each piece runs from one moment to another and nothing else.

A plain reader knows one rule: a node starts when all it depends on has ended. A host operator breaks it:
what it calls starts inside it, kernels start while it still runs, and it waits for others before it ends.
So host threads become chains of pieces, each of one operator's own work, cut where something starts from
them or where they wait; device rows and communication stay whole.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import EdgeForm, Edges


@dataclass(frozen=True, eq=False)
class TimedRows:
    """A rank's rows with their times in ns: what is cut into pieces."""

    start: I64
    end: I64
    own: I64
    """Own time; less than the duration where a host row waits."""
    threaded: Mask
    """Host rows that are no communication: they share their thread."""
    lane: I64
    ran: Mask
    edges: Edges


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parallel arrays, by row and then by start."""

    row: I64
    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.row)


def cut(rows: TimedRows) -> Pieces:
    """All pieces of a rank; every row that ran has at least one."""
    at = _cut_times(rows)
    found: list[tuple[int, int, int]] = []
    for row, start, end in _segments(rows):
        found += _cut_segment(rows, row, start, end, at.get(row, ()))
    whole = np.flatnonzero(rows.ran & ~rows.threaded)
    found += zip(whole.tolist(), rows.start[whole].tolist(), rows.end[whole].tolist(), strict=True)
    found += _missing(rows, {row for row, _, _ in found})
    table = np.array(sorted(found), np.int64).reshape(-1, 3)
    return Pieces(table[:, 0], table[:, 1], table[:, 2])


def _missing(rows: TimedRows, seen: set[int]) -> list[tuple[int, int, int]]:
    """Threaded rows that callees fill entirely: one empty piece where they start."""
    return [
        (row, int(rows.start[row]), int(rows.start[row]))
        for row in np.flatnonzero(rows.ran & rows.threaded).tolist()
        if row not in seen
    ]


def _cut_times(rows: TimedRows) -> dict[int, list[int]]:
    """For each threaded row, the moments where something starts from it or it waits for something."""
    found: dict[int, list[int]] = {}
    e = rows.edges
    starts = e.form == EdgeForm.START_START
    for row, lag in zip(e.src[starts].tolist(), e.lag[starts].tolist(), strict=True):
        if rows.threaded[row]:
            found.setdefault(row, []).append(int(rows.start[row]) + lag)
    waits = (e.form == EdgeForm.FINISH_FINISH) & rows.ran[e.src]
    for source, row in zip(e.src[waits].tolist(), e.dst[waits].tolist(), strict=True):
        if rows.threaded[row]:
            found.setdefault(row, []).append(int(rows.end[source]))
    return found


def _segments(rows: TimedRows) -> list[tuple[int, int, int]]:
    """Each thread as what its innermost operator does at every moment: (row, from, to)."""
    found: list[tuple[int, int, int]] = []
    mine = np.flatnonzero(rows.ran & rows.threaded)
    order = mine[np.lexsort((mine, -rows.end[mine], rows.start[mine], rows.lane[mine]))]
    stack: list[list[int]] = []  # [row, end, how far its own segments go]

    def close(until: int) -> None:
        while stack and stack[-1][1] <= until:
            row, end, done = stack.pop()
            if end > done:
                found.append((row, done, end))
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
                found.append((stack[-1][0], stack[-1][2], start))
            stack[-1][2] = max(stack[-1][2], start)
        stack.append([row, end, start])
    close(2**62)
    return found


def _cut_segment(
    rows: TimedRows, row: int, start: int, end: int, at: list[int] | tuple[()]
) -> list[tuple[int, int, int]]:
    """A segment cut at the moments inside it; where its row waits, the wait is left out."""
    inside = sorted({t for t in at if start < t < end})
    bounds = [start, *inside, end]
    waited = int(rows.end[row] - rows.start[row] - rows.own[row])
    whole = start == rows.start[row] and end == rows.end[row]
    if not (whole and waited > 0 and inside):
        return [(row, a, b) for a, b in itertools.pairwise(bounds)]
    last = bounds[-2]
    worked = max(int(rows.own[row]) - (end - last), 0)  # before it began to wait
    first = [(row, start, min(start + worked, last))]
    return [*first, (row, last, end)]
