"""Offload: communication on another stream, so that what does not read it need not wait for it."""

from __future__ import annotations

from functools import partial

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.passes.comm.job import Job
from chakrakit.passes.comm.overlap import ANY
from chakrakit.passes.comm.rewrite import Rewrite
from chakrakit.passes.comm.waits import turn_edges
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import NO_LANE, has_edges, issue_order, lane_of, on_host, stream_lane


def offload(job: Job, stream: int) -> None:
    """Calls move to a stream, in the order of their issue.

    They still wait for what was before them on their old stream. What came after them there no longer
    waits for them, unless an edge says that it reads what they made, or nothing says who does.
    """
    for body, rows in job.rows(ANY).items():
        job.edit(body, partial(_offloaded, rows, stream))


def _offloaded(rows: I64, stream: int, rewrite: Rewrite) -> None:
    body = rewrite.body
    host = rows[on_host(body)[rows]]
    if len(host):
        raise ConfigError(
            f"offload: node {body.ids[host[0]]} ({rewrite.name(int(host[0]))!r}) runs on the host, which "
            "has no streams; choose communication of the device"
        )
    lane, moved = lane_of(body), np.zeros(len(body), np.bool_)
    moved[rows] = lane[rows] != stream_lane(stream)
    rewrite.set("stream", rows.tolist(), stream)
    by_edges = has_edges(body, EdgeKind.STREAM)
    if by_edges:
        edges = body.edges
        cut = (edges.kind == EdgeKind.STREAM) & (moved[edges.src] | moved[edges.dst])
        rewrite.drop_edges(np.flatnonzero(cut))
        _chain(rewrite, np.where(moved, stream_lane(stream), lane), moved)
    _leave(rewrite, lane, moved, _read(body), by_edges)


def _read(body: Trace) -> Mask:
    """Rows that somebody waits for, other than for their turn."""
    edges = body.edges
    reads = (edges.kind != EdgeKind.STREAM) & ~turn_edges(body)
    found = np.zeros(len(body), np.bool_)
    found[edges.src[reads]] = True
    return found


def _leave(rewrite: Rewrite, lane: I64, moved: Mask, read: Mask, by_edges: bool) -> None:
    """Old streams: newcomers elsewhere wait for what was before them, and the rest closes up."""
    for rows in _lanes(rewrite.body, lane):
        if not moved[rows].any():
            continue
        before, waiting, gap = -1, list[int](), False
        for row in rows.tolist():
            if moved[row]:
                gap = True
                if before >= 0:
                    rewrite.edge(before, row, EdgeKind.EVENT)
                waiting += [] if read[row] else [row]
                continue
            for unread in waiting:
                rewrite.edge(unread, row, EdgeKind.EVENT)
            if gap and by_edges and before >= 0:
                rewrite.edge(before, row, EdgeKind.STREAM)
            before, waiting, gap = row, [], False


def _chain(rewrite: Rewrite, lane: I64, moved: Mask) -> None:
    """The new stream: newcomers stand in its order of issue."""
    for rows in _lanes(rewrite.body, lane):
        for a, b in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
            if moved[a] or moved[b]:
                rewrite.edge(a, b, EdgeKind.STREAM)


def _lanes(body: Trace, lane: I64) -> list[I64]:
    """The rows of each lane in order of issue."""
    rows = np.flatnonzero(lane != NO_LANE)
    rows = rows[np.lexsort((issue_order(body)[rows], lane[rows]))]
    return np.split(rows, np.flatnonzero(np.diff(lane[rows])) + 1)
