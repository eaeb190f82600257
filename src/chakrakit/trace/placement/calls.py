"""What follows from which row runs inside which: when a caller is over, and what ran on without it."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.trace.model import SLACK_NS, Trace, depth_of
from chakrakit.trace.placement.rows import is_communication, on_host


def outlives_parent(trace: Trace) -> Mask:
    """Rows that began inside another and ran on by themselves, as asynchronous work does."""
    if not trace.is_timed:
        return np.zeros(len(trace), np.bool_)
    outer, end = trace.parent, trace.end_ns
    return np.asarray((outer >= 0) & (end > end[outer] + SLACK_NS))


def nested_ends(trace: Trace, start: I64, end: I64, per_ns: int = 1) -> I64:
    """Ends under which every host row lasts until what it called has ended; `per_ns` ticks are 1 ns.

    A schedule knows of a caller only when it starts, and what it does itself: its end is not a
    constraint for anybody. It comes as long after the last row inside as the trace says, and
    never after the next row of its thread has begun. Rows with a negative end did not run.
    """
    host = on_host(trace)
    if not trace.is_timed or not host.any():
        return end
    outer, recorded_end = trace.parent, trace.end_ns
    held = (outer >= 0) & (end >= 0) & ~outlives_parent(trace) & ~is_communication(trace)[outer]
    inner = np.flatnonzero(held)
    if not len(inner):
        return end
    out = end.copy()
    follower = _next_on_thread(trace, host)
    for rows in _innermost_first(inner, depth_of(outer)[inner]):
        last = _last_inside(outer, rows, recorded_end)
        around = outer[last]
        tail = np.maximum(recorded_end[around] - recorded_end[last], 0) * per_ns
        until = out[last] + tail
        after = follower[around]
        bounded = (after >= 0) & (start[np.maximum(after, 0)] >= out[last])
        until = np.where(bounded, np.minimum(until, start[np.maximum(after, 0)]), until)
        out[around] = np.maximum(out[around], until)
        np.maximum.at(out, outer[rows], out[rows])
    return out


def _innermost_first(rows: I64, depth: I32) -> list[I64]:
    """The rows of each depth together."""
    order = np.argsort(-depth, kind="stable")
    bounds = np.flatnonzero(np.diff(depth[order])) + 1
    return np.split(rows[order], bounds)


def _last_inside(outer: I32, rows: I64, end: I64) -> I64:
    """Of rows with the same caller, the one that ended last."""
    order = rows[np.lexsort((end[rows], outer[rows]))]
    last = np.r_[outer[order[1:]] != outer[order[:-1]], True]
    return order[last]


def _next_on_thread(trace: Trace, host: Mask) -> I64:
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
