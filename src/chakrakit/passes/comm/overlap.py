"""Overlap: issues communication earlier or later, never beside compute, or on another stream."""

from __future__ import annotations

from functools import partial

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.passes.comm.job import TYPES, CommJob
from chakrakit.passes.comm.rewrite import Rewrite, highest_before, is_comm, turn_edges, waits
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import NO_LANE, has_edges, issue_order, lane_of, on_host, stream_lane

ANY = tuple(TYPES)
_ISSUE = [int(k) for k in (EdgeKind.CTRL, EdgeKind.LAUNCH, EdgeKind.CALL, EdgeKind.INFERRED)]
"""Edges that say when work is issued, not what it reads."""


def shift(job: CommJob, calls: int) -> None:
    """Issues each call when the call `calls` places before it was issued; negative: places after it.

    Calls still wait for their data. The first ones then wait for data alone; where calls are delayed, the
    last ones stay where they are.
    """
    for channel, indices in job.selected_calls(ANY, sized=False):
        for side in channel.sides:
            job.edit(side.body, partial(_shifted, side.rows[indices], calls))


def _shifted(rows: I64, calls: int, rewrite: Rewrite) -> None:
    edges, comm = rewrite.body.edges, is_comm(rewrite.body)
    issuing = np.isin(edges.kind, _ISSUE) & ~comm[edges.src] & np.isin(edges.dst, rows)
    mine: dict[int, list[int]] = {row: [] for row in rows.tolist()}
    for number in np.flatnonzero(issuing).tolist():
        mine[int(edges.dst[number])].append(number)
    for at, row in enumerate(rows.tolist()):
        model = at - calls
        if model < len(rows):
            rewrite.drop_edges(mine[row])
            rewrite.repeat_edges(mine[int(rows[model])] if model >= 0 else [], row)


def serialize(job: CommJob) -> None:
    """Makes compute that comes after a call wait for the call's end, so that no communication is hidden.

    A receive is left as it is: it is ready from the start, and only its readers wait for it.
    """
    for body, rows in job.rows(ANY).items():
        job.edit(body, partial(_serialized, rows))


def _serialized(rows: I64, rewrite: Rewrite) -> None:
    """Makes host work wait for host communication, and device work for device communication."""
    body, host, issued = rewrite.body, on_host(rewrite.body), issue_order(rewrite.body)
    rows = rows[body.types[rows] != NodeType.COMM_RECV_NODE]
    for side in (False, True):
        mine = rows[host[rows] == side]
        order = np.flatnonzero(body.is_type(NodeType.COMP_NODE) & (host == side))
        order = order[np.argsort(issued[order])]
        ready = _last_awaited(body, order)[mine] if len(mine) else mine
        for row, after in zip(mine.tolist(), ready.tolist(), strict=True):
            if after < len(order):
                rewrite.edge(row, int(order[after]), EdgeKind.CTRL)


def _last_awaited(body: Trace, order: I64) -> I64:
    """Returns for each row the place in `order`, from 1, of the last row it waits for, directly or not.

    0 for none.
    """
    number = np.zeros(len(body), np.int64)
    number[order] = np.arange(1, len(order) + 1)
    src, dst, _ = waits(body)
    starts = np.arange(0, 2 * len(body), 2)
    src, dst = np.r_[src, starts], np.r_[dst, starts + 1]
    marks = np.where(src // 2 == dst // 2, 0, number[src // 2])
    return highest_before(2 * len(body), src, dst, marks)[1::2]


# --- offload ------------------------------------------------------------------------------------


def offload(job: CommJob, stream: int) -> None:
    """Moves calls to a stream, in the order of their issue.

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
    """Returns the rows whose results other rows wait for."""
    edges = body.edges
    reads = (edges.kind != EdgeKind.STREAM) & ~turn_edges(body)
    is_read = np.zeros(len(body), np.bool_)
    is_read[edges.src[reads]] = True
    return is_read


def _leave(rewrite: Rewrite, lane: I64, moved: Mask, read: Mask, by_edges: bool) -> None:
    """Closes the gaps on old streams; moved rows still wait for what came before them there."""
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
    """Adds edges that give the moved rows their places in the new stream's order of issue."""
    for rows in _lanes(rewrite.body, lane):
        for a, b in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
            if moved[a] or moved[b]:
                rewrite.edge(a, b, EdgeKind.STREAM)


def _lanes(body: Trace, lane: I64) -> list[I64]:
    """Returns the rows of each lane in order of issue."""
    rows = np.flatnonzero(lane != NO_LANE)
    rows = rows[np.lexsort((issue_order(body)[rows], lane[rows]))]
    return np.split(rows, np.flatnonzero(np.diff(lane[rows])) + 1)
