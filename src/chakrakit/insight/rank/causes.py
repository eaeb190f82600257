"""What each start and each end of a row waited for last, from times and constraints.

The cause of an event is the constraint that allowed it last before it happened. Where a run recorded what was
waited for, that is used instead.
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
    """Why an event did not happen earlier. Numbers below 16 are the kinds of edges (EdgeKind)."""

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

    `…_row` is the row waited for (-1: none), `…_rank` its rank if that is another one (-1: the same rank),
    `…_at_end` is True if its end was waited for and False if its start was, and `…_when` is the time from
    which the cause allowed the event: what passes between that and the event is unexplained.
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
    """The causes within one rank; causes on other ranks are added once all ranks are read."""
    edges = view.trace.edges
    ran = view.ran
    edges = edges.where(ran[edges.src] & ran[edges.dst])
    starts = _best(view, edges, edges.form != EdgeForm.FINISH_FINISH, view.start)
    ends = _best(view, edges, edges.form == EdgeForm.FINISH_FINISH, view.end)
    causes = _assemble(len(view), edges, starts, ends)
    _own_work(view, causes, ends)
    _after_inside(view, causes)
    _lane_order(view, causes, starts)
    if times is not None and times.binding_row is not None:
        _recorded(view, causes, times)
    return causes


@dataclass(eq=False)
class _Best:
    """For each row, the last constraint that allowed its event: the time, and the edge (-1: none)."""

    when: I64
    edge: I64


def allowed_at(start: I64, end: I64, edges: Edges) -> I64:
    """The time from which each edge allows the event of its target."""
    base = np.where(edges.form == EdgeForm.START_START, start[edges.src], end[edges.src])
    return base + edges.lag


def _best(view: RankView, edges: Edges, eligible: Mask, event: I64) -> _Best:
    when = np.full(len(view), _NEVER, np.int64)
    best = np.full(len(view), -1, np.int64)
    numbers = np.flatnonzero(eligible)
    if not len(numbers):
        return _Best(when, best)
    dst = edges.dst[numbers]
    at = allowed_at(view.start, view.end, edges)[numbers]
    at[at > event[dst] + view.tolerance_ns] = _NEVER
    first = np.flatnonzero(np.r_[True, dst[1:] != dst[:-1]])
    latest = np.maximum.reduceat(at, first)
    sizes = np.diff(np.r_[first, len(dst)])
    binding = numbers[_nearest(at == np.repeat(latest, sizes), edges.lag[numbers], first, sizes)]
    rows, real = dst[first], latest > _NEVER
    when[rows[real]], best[rows[real]] = latest[real], binding[real]
    return _Best(when, best)


def _nearest(hit: Mask, lag: I64, first: I64, sizes: I64) -> I64:
    """Of the edges that allow an event at the same time, the one with the least lag: it explains most."""
    far = np.iinfo(np.int64).max
    lags = np.where(hit, lag, far)
    least = np.minimum.reduceat(lags, first)
    place = np.where(lags == np.repeat(least, sizes), np.arange(len(hit)), len(hit))
    return np.minimum(np.minimum.reduceat(place, first), len(hit) - 1)


def _assemble(n: int, edges: Edges, starts: _Best, ends: _Best) -> Causes:
    parts: list[NDArray[np.generic]] = []
    for best in (starts, ends):
        has_edge = best.edge >= 0
        edge = np.maximum(best.edge, 0)
        kind = np.full(n, Cause.NOTHING, np.int8)
        row = np.full(n, -1, np.int32)
        at_end = np.zeros(n, np.bool_)
        if has_edge.any():
            kind[has_edge] = edges.kind[edge[has_edge]]
            row[has_edge] = edges.src[edge[has_edge]]
            at_end[has_edge] = edges.form[edge[has_edge]] != EdgeForm.START_START
        parts += [kind, row, np.full(n, -1, np.int32), at_end, best.when]
    return Causes(*parts)  # type: ignore[arg-type]


def _own_work(view: RankView, causes: Causes, ends: _Best) -> None:
    """Makes a row's own work the cause of its end, unless an edge allowed the end later."""
    own_end = view.start + view.own
    own_binds = own_end >= ends.when
    causes.end[own_binds], causes.end_row[own_binds], causes.end_at_end[own_binds] = (
        Cause.OWN,
        -1,
        False,
    )
    causes.end_when[own_binds] = own_end[own_binds]


def _after_inside(view: RankView, causes: Causes) -> None:
    """Makes the last row inside a host row the cause of its end; the rest is the host row's own time."""
    rows = np.flatnonzero(view.parent >= 0)
    if not len(rows):
        return
    rows = rows[np.argsort(view.end[rows], kind="stable")]
    last = np.full(len(view), -1, np.int32)
    last[view.parent[rows]] = rows
    has = last >= 0
    inside_end = np.where(has, view.end[np.maximum(last, 0)], _NEVER)
    later = has & (inside_end >= causes.end_when) & (inside_end <= view.end + view.tolerance_ns)
    causes.end[later], causes.end_row[later] = Cause.INSIDE, last[later]
    causes.end_at_end[later] = True
    # All that is left of a host row after its last part is the host's own work.
    causes.end_when[later] = view.end[later]


def _lane_order(view: RankView, causes: Causes, starts: _Best) -> None:
    """Makes the row before on a lane the cause of a start, where that ended later than edges demand."""
    before, after = view.lane_pairs
    freed = view.end[before]
    later = (freed > starts.when[after]) & (freed <= view.start[after] + view.tolerance_ns)
    # An edge that explains a start to the full wins over a lane.
    later &= starts.when[after] < view.start[after]
    rows, prior = after[later], before[later]
    causes.start[rows], causes.start_row[rows] = Cause.LANE, prior
    causes.start_at_end[rows] = True
    causes.start_when[rows] = view.end[prior]


def _recorded(view: RankView, causes: Causes, times: Times) -> None:
    assert times.binding_row is not None
    rows = np.flatnonzero(times.binding_row >= 0)
    if not len(rows):
        return
    row = times.binding_row[rows]
    rank = np.full(len(rows), -1, np.int32)
    if times.binding_rank is not None:
        rank = np.where(times.binding_rank[rows] == view.rank, -1, times.binding_rank[rows])
    near = rank < 0
    same_row = causes.start_row[rows] == row
    change = ~(near & same_row)
    rows, row, rank = rows[change], row[change], rank[change]
    causes.start[rows], causes.start_row[rows], causes.start_rank[rows] = Cause.RECORDED, row, rank
    ended = np.where(rank < 0, view.end[np.minimum(row, len(view) - 1)], _NEVER)
    causes.start_at_end[rows] = ended <= view.start[rows]
    causes.start_when[rows] = view.start[rows]
