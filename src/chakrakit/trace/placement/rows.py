"""Where rows run (host, device, lane), which of them communicate, in which order, and when callers end."""

from __future__ import annotations

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.operators import is_device_record
from chakrakit.trace.model import COMMUNICATION, SLACK_NS, EdgeKind, NodeType, Trace, depth_of


def on_host(trace: Trace) -> Mask:
    """Rows that run on the host; a row that does not say so runs on a device."""
    return trace.on_host


def on_device(trace: Trace) -> Mask:
    """Rows that run on a device: all that do not run on the host."""
    return ~on_host(trace)


def kernels(trace: Trace) -> Mask:
    """Computation on a device."""
    return on_device(trace) & trace.is_type(NodeType.COMP_NODE)


def stored(trace: Trace) -> Mask:
    """Rows that read from or write to a store of the machine, or the memory of another rank.

    They are memory operations that name a store or a window.
    """
    named = np.zeros(len(trace), np.bool_)
    for column in ("storage", "window"):
        if column in trace.column_names:
            named |= trace.column(column, "") != ""
    if not named.any():
        return named
    return named & trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)


def is_communication(trace: Trace) -> Mask:
    """Collectives and messages, without host rows that only record one that a kernel carries out (NCCL)."""
    candidates = trace.is_type(*COMMUNICATION)
    host = on_host(trace)
    if not (candidates & host).any():
        return candidates
    unknown = trace.is_type(NodeType.COMM_COLL_NODE) & ~trace.has("comm_type")
    return np.asarray(candidates & ~(host & (unknown | _named_for_device(trace))))


def _named_for_device(trace: Trace) -> Mask:
    codes, texts = trace.texts("name")
    return np.array([is_device_record(str(t)) for t in texts] or [False])[codes]


# Lanes: the streams and threads on which rows run one after another, and the order of issue.


NO_LANE = -1
"""The lane of rows that run on no stream or thread in particular."""
_FAR = 2**60
"""Numbers of streams and threads beyond this are taken as this."""


def issue_order(trace: Trace) -> I64:
    """For each row its place in the order of issue: by recorded start, then by id."""
    place = np.empty(len(trace), np.int64)
    place[np.lexsort((trace.ids, trace.start_ns))] = np.arange(len(trace))
    return place


def issued(trace: Trace, rows: I64) -> I64:
    """Rows in the order of issue."""
    return rows[np.lexsort((trace.ids[rows], trace.start_ns[rows]))]


def lane_of(trace: Trace) -> I64:
    """A number for the stream or thread of each row, or NO_LANE: even for streams, odd for threads."""
    host = on_host(trace)
    stream, thread = trace.has("stream") & ~host, trace.has("tid") & host
    if len(stream) and stream.all():
        return stream_lane(trace.column("stream", 0))
    lane = np.full(len(trace), NO_LANE, np.int64)
    if stream.any():
        lane[stream] = stream_lane(trace.column("stream", 0)[stream])
    if thread.any():
        lane[thread] = 2 * _natural(trace.column("tid", 0)[thread]) + 1
    return lane


def stream_lane(stream: I64 | int) -> I64:
    """The lane of a stream."""
    lane = _natural(stream)
    lane *= 2  # in place: there may be millions
    return lane


def _natural(number: I64 | int) -> I64:
    """Maps 0, -1, 1, -2, 2 … to 0, 1, 2, 3, 4 …, so that streams -1 and 1 stay apart."""
    value = np.asarray(number, np.int64)
    if value.size and value.min() >= 0 and value.max() <= _FAR:
        return 2 * value
    value = np.clip(value, -_FAR, _FAR)
    return np.where(value >= 0, 2 * value, -2 * value - 1)


def lane_number(lane: int) -> int:
    """The stream or thread whose lane this is."""
    natural = lane // 2
    return -(natural + 1) // 2 if natural % 2 else natural // 2


def has_edges(trace: Trace, *kinds: EdgeKind) -> bool:
    """Whether the trace has edges of these kinds; then they give the order, and lanes do not."""
    return any(bool((trace.edges.kind == int(kind)).any()) for kind in kinds)


def ordered_by_edges(trace: Trace, host: bool) -> bool:
    """Whether edges, and not lanes, give the order on threads (`host`) or on streams."""
    if host:
        return has_edges(trace, EdgeKind.THREAD, EdgeKind.CALL)
    return has_edges(trace, EdgeKind.STREAM)


def implied_order(trace: Trace) -> tuple[I64, I64]:
    """Rows and their followers on lanes whose order no edges give: two parallel arrays."""
    lane, place = lane_of(trace), issue_order(trace)
    ordered = np.zeros(len(trace), np.bool_)
    for host in (False, True):
        if ordered_by_edges(trace, host):
            ordered |= lane % 2 == int(host)
    rows = np.flatnonzero((lane != NO_LANE) & ~ordered)
    rows = rows[np.lexsort((place[rows], lane[rows]))]
    same = lane[rows[1:]] == lane[rows[:-1]]
    return rows[:-1][same], rows[1:][same]


# Callers: when they end, and which rows run on after them.


def outlives_parent(trace: Trace) -> Mask:
    """Rows that began inside another and ran on by themselves, as asynchronous work does."""
    if not trace.is_timed:
        return np.zeros(len(trace), np.bool_)
    outer, end = trace.parent, trace.end_ns
    return np.asarray((outer >= 0) & (end > end[outer] + SLACK_NS))


def nested_ends(trace: Trace, start: I64, end: I64, per_ns: int = 1) -> I64:
    """Ends under which every host row lasts until what it called has ended; `per_ns` ticks are 1 ns.

    A schedule knows when a caller starts and how long its own work takes, but no other row waits for its end.
    So the end is set here: as long after the last row inside as the trace says, and never after the next row
    of its thread has begun. Rows with a negative end did not run.
    """
    host = on_host(trace)
    if not trace.is_timed or not host.any():
        return end
    outer, recorded_end = trace.parent, trace.end_ns
    delays_caller = (
        (outer >= 0) & (end >= 0) & ~outlives_parent(trace) & ~is_communication(trace)[outer]
    )
    inner = np.flatnonzero(delays_caller).astype(np.int32)
    if not len(inner):
        return end
    innermost_first = inner[np.argsort(-depth_of(outer)[inner], kind="stable")]
    follows = _next_on_thread(trace, host)
    return core.callers_ends(innermost_first, outer, recorded_end, start, end, follows, per_ns)


def _next_on_thread(trace: Trace, host: Mask) -> I32:
    """The row that comes next on its thread after all that is inside a row; -1 for none."""
    rows = np.flatnonzero(host & trace.has("tid"))
    thread = trace.column("tid", 0)[rows]
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    order = np.lexsort((-end, start, thread))
    rows, thread, start, end = rows[order], thread[order], start[order], end[order]
    following = np.full(len(trace), -1, np.int32)
    for name in np.unique(thread).tolist():
        first, last = np.searchsorted(thread, [name, name + 1])
        place = first + np.searchsorted(start[first:last], end[first:last], side="left")
        place = np.maximum(place, np.arange(first, last) + 1)
        inside = place < last
        following[rows[first:last][inside]] = rows[place[inside]]
    return following
