"""Who called whom on the host, which is a fact of the trace and not of the times it is given later."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.trace.model import Trace
from chakrakit.trace.placement.rows import is_communication, on_host
from chakrakit.trace.timing import SLACK_NS, callers

_DEEPEST = 64


def callers_in(trace: Trace, start: I64, end: I64, ran: Mask) -> I32:
    """For each host row, the host row around it; -1 for none.

    Where the trace itself has times they tell, and `start` and `end`, which a simulator or a replay
    may have given its rows since, only where it has none.
    """
    if trace.is_timed:
        return callers(trace, trace.start_ns, trace.end_ns, on_host(trace))
    return callers(trace, start, end, on_host(trace) & ran)


def nested_ends(trace: Trace, start: I64, end: I64, per_ns: int = 1) -> I64:
    """Ends under which every host row lasts until what it called has ended; `per_ns` ticks are 1 ns.

    A schedule knows of a caller only when it starts, and what it does itself: its end is not a
    constraint for anybody. It comes as long after the last row inside as the trace says, and
    never after the next row of its thread has begun. Rows with a negative end did not run.
    """
    host = on_host(trace)
    if not trace.is_timed or not host.any():
        return end
    outer = callers_in(trace, start, end, host)
    inner = np.flatnonzero((outer >= 0) & (end >= 0))
    told = trace.end_ns
    # What outlived its caller in the trace, as asynchronous work does, does not hold it up.
    held = told[inner] <= told[outer[inner]] + SLACK_NS
    inner = inner[held & ~is_communication(trace)[outer[inner]]]
    if not len(inner):
        return end
    out = end.copy()
    follower = _next_on_thread(trace, outer, host)
    level = _levels(outer, inner)
    for depth in range(int(level.max()), -1, -1):
        rows = inner[level == depth]
        last = _last_inside(outer, rows, told)
        around = outer[last]
        tail = np.maximum(told[around] - told[last], 0) * per_ns
        until = out[last] + tail
        after = follower[around]
        bounded = (after >= 0) & (start[np.maximum(after, 0)] >= out[last])
        until = np.where(bounded, np.minimum(until, start[np.maximum(after, 0)]), until)
        out[around] = np.maximum(out[around], until)
        np.maximum.at(out, outer[rows], out[rows])
    return out


def _levels(outer: I32, rows: I64) -> I64:
    """How many rows are around each."""
    level = np.zeros(len(rows), np.int64)
    above = outer[rows]
    for _ in range(_DEEPEST):
        above = np.where(above >= 0, outer[np.maximum(above, 0)], -1)
        if not (above >= 0).any():
            break
        level += above >= 0
    return level


def _last_inside(outer: I32, rows: I64, end: I64) -> I64:
    """Of rows with the same caller, the one that ended last."""
    order = rows[np.lexsort((end[rows], outer[rows]))]
    last = np.r_[outer[order[1:]] != outer[order[:-1]], True]
    return order[last]


def _next_on_thread(trace: Trace, outer: I32, host: Mask) -> I64:
    """The row that comes next on its thread after all that is inside a row; -1 for none."""
    rows = np.flatnonzero(host & trace.has("tid"))
    thread = trace.column("tid", 0)[rows]
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    order = np.lexsort((-end, start, thread))
    rows, thread, start, end = rows[order], thread[order], start[order], end[order]
    found = np.full(len(trace), -1, np.int64)
    for name in np.unique(thread).tolist():
        first, last = np.searchsorted(thread, [name, name + 1])
        place = first + np.searchsorted(start[first:last], end[first:last], side="left")
        place = np.maximum(place, np.arange(first, last) + 1)
        inside = place < last
        found[rows[first:last][inside]] = rows[place[inside]]
    return found
