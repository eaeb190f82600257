"""Lanes: the streams and threads on which rows run one after another, and the order of issue."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement.rows import on_host

NO_LANE = -1
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
    lane = np.full(len(trace), NO_LANE, np.int64)
    stream, thread = trace.has("stream") & ~host, trace.has("tid") & host
    lane[stream] = stream_lane(trace.column("stream", 0)[stream])
    lane[thread] = 2 * _natural(trace.column("tid", 0)[thread]) + 1
    return lane


def stream_lane(stream: I64 | int) -> I64:
    """The lane of a stream."""
    return 2 * _natural(stream)


def _natural(number: I64 | int) -> I64:
    """0, -1, 1, -2, 2 … as 0, 1, 2, 3, 4 …: streams -1 and 1 are two."""
    value = np.clip(np.asarray(number, np.int64), -_FAR, _FAR)
    return np.where(value >= 0, 2 * value, -2 * value - 1)


def lane_number(lane: int) -> int:
    """The stream or thread whose lane this is."""
    natural = lane // 2
    return -(natural + 1) // 2 if natural % 2 else natural // 2


def has_edges(trace: Trace, *kinds: EdgeKind) -> bool:
    """Whether the trace has edges of these kinds: then they, and no lane, give the order."""
    return bool(np.isin(trace.edges.kind, [int(k) for k in kinds]).any())


def ordered_by_edges(trace: Trace, host: bool) -> bool:
    """Whether edges, and no lane, give the order of threads (`host`) or of streams."""
    if host:
        return has_edges(trace, EdgeKind.THREAD, EdgeKind.CALL)
    return has_edges(trace, EdgeKind.STREAM)


def implied_order(trace: Trace) -> tuple[I64, I64]:
    """Pairs of rows that follow each other on a lane whose order no edge says."""
    lane, place = lane_of(trace), issue_order(trace)
    said = np.zeros(len(trace), np.bool_)
    for host in (False, True):
        if ordered_by_edges(trace, host):
            said |= lane % 2 == int(host)
    rows = np.flatnonzero((lane != NO_LANE) & ~said)
    rows = rows[np.lexsort((place[rows], lane[rows]))]
    same = lane[rows[1:]] == lane[rows[:-1]]
    return rows[:-1][same], rows[1:][same]
