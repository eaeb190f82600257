"""The order in which a rank issues work, and the lanes (streams, threads) on which it runs in order."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host

NO_LANE = -1


def issue_order(body: Trace) -> I64:
    """For each row its place in the order of issue: by recorded start, then by id."""
    place = np.empty(len(body), np.int64)
    place[np.lexsort((body.ids, body.start_ns))] = np.arange(len(body))
    return place


def lane_of(body: Trace) -> I64:
    """A number for the stream or thread of each row, or NO_LANE: even for streams, odd for threads."""
    host = on_host(body)
    lane = np.full(len(body), NO_LANE, np.int64)
    stream, thread = body.has("stream") & ~host, body.has("tid") & host
    lane[stream] = stream_lane(body.column("stream", 0)[stream])
    lane[thread] = 2 * np.abs(body.column("tid", 0)[thread].astype(np.int64)) + 1
    return lane


def stream_lane(stream: I64 | int) -> I64:
    """The lane of a stream."""
    return 2 * np.abs(np.asarray(stream, np.int64))


def has_edges(body: Trace, *kinds: EdgeKind) -> bool:
    """Whether the body has edges of these kinds: then they, and no lane, give the order."""
    return bool(np.isin(body.edges.kind, [int(k) for k in kinds]).any())


def order_kind(body: Trace, host: bool) -> EdgeKind:
    """The kind of edge that says this body's work runs after other work of its lane."""
    if host and has_edges(body, EdgeKind.THREAD, EdgeKind.CALL):
        return EdgeKind.THREAD
    return EdgeKind.STREAM if not host and has_edges(body, EdgeKind.STREAM) else EdgeKind.CTRL


def data_kind(body: Trace) -> EdgeKind:
    """The kind of edge that says work reads what other work wrote."""
    return EdgeKind.TENSOR if "edge_kinds" in body.table.column_names else EdgeKind.DATA


def implied_order(body: Trace) -> tuple[I64, I64]:
    """Pairs of rows that follow each other on a lane whose order no edge says."""
    lane, place = lane_of(body), issue_order(body)
    said = np.zeros(len(body), np.bool_)
    if has_edges(body, EdgeKind.STREAM):
        said |= lane % 2 == 0
    if has_edges(body, EdgeKind.THREAD, EdgeKind.CALL):
        said |= lane % 2 == 1
    rows = np.flatnonzero((lane != NO_LANE) & ~said)
    rows = rows[np.lexsort((place[rows], lane[rows]))]
    same = lane[rows[1:]] == lane[rows[:-1]]
    return rows[:-1][same], rows[1:][same]
