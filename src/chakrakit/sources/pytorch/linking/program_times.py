"""The one set of times of a rank that everything uses: as recorded, or as the program alone would take.

Both are consistent in themselves. A host row's own time holds neither what runs inside it nor any
waiting, and a host row ends after everything that ran inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.sources.pytorch.edges import HostModel
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges
from chakrakit.trace.timing import Schedule, schedule


@dataclass(frozen=True)
class ProgramTimes:
    """Start, end and own time of every row, in ns on the rank's clock."""

    start: I64
    end: I64
    own: I64


def recorded_times(host: HostModel, own: I64, whole: Mask) -> ProgramTimes:
    """What was recorded; `whole` marks rows that take their full time whatever runs inside them."""
    line = host.line
    return ProgramTimes(line.start, line.end, _own(host, line.start, line.end, own, whole))


def corrected_times(
    host: HostModel, edges: Edges, own: I64, whole: Mask, polls: Mask
) -> tuple[ProgramTimes, Edges]:
    """Every row as early as the constraints allow, once recording's cost is out of them.

    Rows with others inside have no part in the chain of their thread but for their starts. Their
    ends are put where they were between the last row inside and the next row after it. Rows of
    threads that only poll stay beside the work that they were recorded beside, which changes the
    lags of their edges.
    """
    line = host.line
    bare = own.copy()
    callers = _Callers(host)
    bare[callers.rows[~whole[callers.rows]]] = 0
    timed = schedule(len(line), edges, bare)
    if polls.any():
        edges = _moved_along(host, edges, timed, polls)
        timed = schedule(len(line), edges, bare)
    epoch = int(line.start.min()) if len(line) else 0
    start, end = timed.start + epoch, timed.end + epoch
    _place_ends(callers, start, end, whole)
    return ProgramTimes(start, end, _own(host, start, end, own, whole)), edges


def _moved_along(host: HostModel, edges: Edges, timed: Schedule, polls: Mask) -> Edges:
    """The edges, with those to polling rows holding them where the busiest thread is by then."""
    line = host.line
    works = line.thread[host.rows[~polls[host.rows]]]
    if not len(works):
        return edges
    main = host.thread_rows(int(np.bincount(works).argmax()))
    when = np.interp(line.start, line.start[main], np.maximum.accumulate(timed.start[main]))
    late = np.maximum(
        line.start - line.start[main[-1]], 0
    )  # as long after the last row as recorded
    target = when.astype(np.int64) + late
    to_poll = polls[edges.dst] & np.isin(edges.kind, (EdgeKind.THREAD, EdgeKind.INFERRED))
    first = edges.form == EdgeForm.START_START
    base = np.where(
        polls[edges.src],
        target[edges.src] + np.where(first, 0, line.duration[edges.src]),
        np.where(first, timed.start[edges.src], timed.end[edges.src]),
    )
    lag = np.where(to_poll, np.maximum(target[edges.dst] - base, 0), edges.lag)
    return Edges(edges.src, edges.dst, edges.kind, edges.form, lag, edges.ctrl)


class _Callers:
    """Host rows with others inside, the last row inside each, and the row after that on the thread."""

    def __init__(self, host: HostModel) -> None:
        self.host, line = host, host.line
        self.inside = np.flatnonzero((line.parent >= 0) & line.is_host & ~line.astray)
        self.rows = np.unique(line.parent[self.inside])
        last = np.arange(len(line))
        for row in self.inside[np.argsort(self._place[self.inside], kind="stable")][::-1].tolist():
            outer = line.parent[row]
            if self._place[last[row]] > self._place[last[outer]]:
                last[outer] = last[row]
        self.last = last[self.rows]
        self.next = host.after[self.last]

    @cached_property
    def _place(self) -> I64:
        place = np.full(len(self.host.line), -1, np.int64)
        place[self.host.rows] = np.arange(len(self.host.rows))
        return place


def _place_ends(callers: _Callers, start: I64, end: I64, whole: Mask) -> None:
    """Move each caller's end as the gap moved in which it lies: first waiting, then the host's work."""
    host, line = callers.host, callers.host.line
    rows, last, after = callers.rows, callers.last, callers.next
    follows = after >= 0
    at = np.maximum(after, 0)
    past = np.maximum(line.end[rows] - line.end[last], 0)
    gap = np.where(follows, line.start[at] - line.end[last], past)
    work = np.where(follows, np.minimum(np.maximum(host.recorded_lag[at], 0), gap), gap)
    new_gap = np.maximum(np.where(follows, start[at] - end[last], gap), 0)
    new_work = np.where(follows, np.minimum(np.maximum(host.lag[at], 0), new_gap), new_gap)
    waited = np.minimum(past, gap - work)
    moved = (
        _share(waited, gap - work) * (new_gap - new_work) + _share(past - waited, work) * new_work
    )
    placed = end[last] + moved.astype(np.int64)
    chosen = ~whole[rows]
    end[rows[chosen]] = np.maximum(placed, end[rows])[chosen]
    # Inner rows are later in the order of starts, so that going backwards each is done before its caller.
    for row in callers.inside[::-1].tolist():
        outer = line.parent[row]
        end[outer] = max(end[outer], end[row])


def _share(part: I64, whole: I64) -> F64:
    return np.minimum(part / np.maximum(whole, 1), 1.0)


def _own(host: HostModel, start: I64, end: I64, own: I64, whole: Mask) -> I64:
    """Own times of all rows; callers' from the times, without what ran inside and without waiting."""
    line = host.line
    callers = _Callers(host)
    inner = callers.inside
    outer = line.parent[inner]
    spent = np.zeros(len(line), np.int64)
    np.add.at(spent, outer, np.minimum(end[inner], end[outer]) - start[inner])
    out = own.copy()
    rows = callers.rows[~whole[callers.rows]]
    out[rows] = np.minimum(end[rows] - start[rows] - spent[rows], own[rows])
    _take_out_waiting(host, start, end, out, whole)
    out[rows] = np.maximum(out[rows], 0)
    return out


def _take_out_waiting(host: HostModel, start: I64, end: I64, own: I64, whole: Mask) -> None:
    """Gaps before rows that their thread did not need itself: taken from the callers they lie in."""
    line = host.line
    rows = host.rows[host.before[host.rows] >= 0]
    before = host.before[rows]
    base = np.where(host.is_call[rows], start[before], end[before])
    waited = start[rows] - base - np.maximum(host.lag[rows], 0)
    for i in np.flatnonzero(waited > 0).tolist():
        row, here = int(rows[i]), int(base[i])
        until = here + int(waited[i])
        inner = -1 if host.is_call[row] else int(before[i])
        while inner >= 0 and (outer := int(line.parent[inner])) != int(line.parent[row]):
            if outer < 0:
                break
            stop = min(int(end[outer]), until)
            own[outer] -= max(stop - here, 0) * (not whole[outer])
            here, inner = max(here, stop), outer
        caller = int(line.parent[row])
        if caller >= 0 and not whole[caller]:
            own[caller] -= max(until - here, 0)
