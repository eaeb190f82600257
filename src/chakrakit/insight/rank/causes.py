"""What each start and each end waited for last, found from the times and the constraints on them.

A constraint that would have allowed an event at time t and no earlier explains it if nothing that
came before the event allows it later. Runs that recorded what was waited for are taken at their word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.insight.rank.view import RankView
from chakrakit.trace.model import EdgeForm, Edges
from chakrakit.trace.sets import Times

_NEVER = np.iinfo(np.int64).min


class Cause(IntEnum):
    """Why an event came no earlier. Numbers below 16 are the kinds of edges (EdgeKind)."""

    NOTHING = -1
    LANE = 16
    """The row before it on the same stream or engine had to end."""
    RECORDED = 17
    """What the run itself says was waited for last."""
    OWN = 18
    """The row's own work had to be done."""
    INSIDE = 19
    """The last thing that ran inside a host row had ended."""
    ARRIVAL = 20
    """The last rank came to the collective."""
    MESSAGE = 21
    """The sender sent."""


@dataclass(eq=False)
class Causes:
    """For each row, the cause of its start and of its end.

    `…_row` is the row waited for (-1: none), `…_rank` its rank where that is another (-1: the same),
    `…_at_end` whether its end was waited for, or its start, and `…_when` the time from which on the
    cause allowed the event: what lies between that and the event is not explained.
    """

    start: I8
    start_row: I32
    start_rank: I32
    start_at_end: Mask
    start_when: I64
    end: I8
    end_row: I32
    end_rank: I32
    end_at_end: Mask
    end_when: I64


def causes_of(view: RankView, times: Times | None = None) -> Causes:
    """Causes within one rank; what peers cause is added when all ranks are known."""
    edges = view.trace.edges
    ran = view.ran
    edges = edges.where(ran[edges.src] & ran[edges.dst])
    starts = _best(view, edges, edges.form != EdgeForm.FINISH_FINISH, view.start)
    ends = _best(view, edges, edges.form == EdgeForm.FINISH_FINISH, view.end)
    found = _assemble(len(view), edges, starts, ends)
    _own_work(view, found, ends)
    _after_inside(view, found)
    _lane_order(view, found, starts)
    if times is not None and times.binding_row is not None:
        _recorded(view, found, times)
    return found


@dataclass(eq=False)
class _Best:
    """The latest constraint of each row that does not come after the event: when, and which edge."""

    when: I64
    edge: I64


def allowed_at(start: I64, end: I64, edges: Edges) -> I64:
    """When each edge lets its target's event happen."""
    base = np.where(edges.form == EdgeForm.START_START, start[edges.src], end[edges.src])
    return base + edges.lag


def _best(view: RankView, edges: Edges, chosen: Mask, event: I64) -> _Best:
    when = np.full(len(view), _NEVER, np.int64)
    best = np.full(len(view), -1, np.int64)
    numbers = np.flatnonzero(chosen)
    if not len(numbers):
        return _Best(when, best)
    dst = edges.dst[numbers]
    at = allowed_at(view.start, view.end, edges)[numbers]
    at[at > event[dst] + view.tolerance_ns] = _NEVER
    first = np.flatnonzero(np.r_[True, dst[1:] != dst[:-1]])
    latest = np.maximum.reduceat(at, first)
    sizes = np.diff(np.r_[first, len(dst)])
    which = numbers[_nearest(at == np.repeat(latest, sizes), edges.lag[numbers], first, sizes)]
    rows, real = dst[first], latest > _NEVER
    when[rows[real]], best[rows[real]] = latest[real], which[real]
    return _Best(when, best)


def _nearest(hit: Mask, lag: I64, first: I64, sizes: I64) -> I64:
    """Of the edges that bind equally, the one with the least lag: it says most about why."""
    far = np.iinfo(np.int64).max
    lags = np.where(hit, lag, far)
    least = np.minimum.reduceat(lags, first)
    place = np.where(lags == np.repeat(least, sizes), np.arange(len(hit)), len(hit))
    return np.minimum(np.minimum.reduceat(place, first), len(hit) - 1)


def _assemble(n: int, edges: Edges, starts: _Best, ends: _Best) -> Causes:
    parts: list[NDArray[np.generic]] = []
    for best in (starts, ends):
        known = best.edge >= 0
        edge = np.maximum(best.edge, 0)
        kind = np.full(n, Cause.NOTHING, np.int8)
        row = np.full(n, -1, np.int32)
        at_end = np.zeros(n, np.bool_)
        if known.any():
            kind[known] = edges.kind[edge[known]]
            row[known] = edges.src[edge[known]]
            at_end[known] = edges.form[edge[known]] != EdgeForm.START_START
        parts += [kind, row, np.full(n, -1, np.int32), at_end, best.when]
    return Causes(*parts)  # type: ignore[arg-type]


def _own_work(view: RankView, found: Causes, ends: _Best) -> None:
    """A row's own time explains its end unless something else came later."""
    done = view.start + view.own
    own = done >= ends.when
    found.end[own], found.end_row[own], found.end_at_end[own] = Cause.OWN, -1, False
    found.end_when[own] = done[own]


def _after_inside(view: RankView, found: Causes) -> None:
    """A host row with others inside ends after the last of them; the rest is its own time."""
    rows = np.flatnonzero(view.parent >= 0)
    if not len(rows):
        return
    rows = rows[np.argsort(view.end[rows], kind="stable")]
    last = np.full(len(view), -1, np.int32)
    last[view.parent[rows]] = rows
    has = last >= 0
    inside_end = np.where(has, view.end[np.maximum(last, 0)], _NEVER)
    later = has & (inside_end >= found.end_when) & (inside_end <= view.end + view.tolerance_ns)
    found.end[later], found.end_row[later] = Cause.INSIDE, last[later]
    found.end_at_end[later] = True
    # All that is left of a host row after its last part is the host's own work.
    found.end_when[later] = view.end[later]


def _lane_order(view: RankView, found: Causes, starts: _Best) -> None:
    """The row before on a lane, where its end came later than all that edges say."""
    before, after = view.lane_pairs
    freed = view.end[before]
    later = (freed > starts.when[after]) & (freed <= view.start[after] + view.tolerance_ns)
    # An edge that explains a start to the full wins over a lane.
    later &= starts.when[after] < view.start[after]
    rows, prior = after[later], before[later]
    found.start[rows], found.start_row[rows] = Cause.LANE, prior
    found.start_at_end[rows] = True
    found.start_when[rows] = view.end[prior]


def _recorded(view: RankView, found: Causes, times: Times) -> None:
    assert times.binding_row is not None
    rows = np.flatnonzero(times.binding_row >= 0)
    if not len(rows):
        return
    row = times.binding_row[rows]
    rank = np.full(len(rows), -1, np.int32)
    if times.binding_rank is not None:
        rank = np.where(times.binding_rank[rows] == view.rank, -1, times.binding_rank[rows])
    near = rank < 0
    known = found.start_row[rows] == row
    change = ~(near & known)
    rows, row, rank = rows[change], row[change], rank[change]
    found.start[rows], found.start_row[rows], found.start_rank[rows] = Cause.RECORDED, row, rank
    ended = np.where(rank < 0, view.end[np.minimum(row, len(view) - 1)], _NEVER)
    found.start_at_end[rows] = ended <= view.start[rows]
    found.start_when[rows] = view.start[rows]
