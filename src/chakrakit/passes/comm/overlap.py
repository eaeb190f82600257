"""Overlap: communication issued earlier or later, or never beside compute."""

from __future__ import annotations

from functools import partial

import numpy as np

from chakrakit.arrays import I64
from chakrakit.passes.comm.job import TYPES, Job
from chakrakit.passes.comm.rewrite import Rewrite
from chakrakit.passes.comm.waits import highest_before, is_comm, waits
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import issue_order, on_host

ANY = tuple(TYPES)
_ISSUE = [int(k) for k in (EdgeKind.CTRL, EdgeKind.LAUNCH, EdgeKind.CALL, EdgeKind.INFERRED)]
"""Edges that say when work is issued, not what it reads."""


def shift(job: Job, calls: int) -> None:
    """Each call is issued when the one `calls` before it (below 0: after it) was; data is still awaited.

    The first ones wait for data alone; where calls are delayed, the last ones stay.
    """
    for channel, chosen in job.chosen(ANY, sized=False):
        for side in channel.sides:
            job.edit(side.body, partial(_shifted, side.rows[chosen], calls))


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


def serialize(job: Job) -> None:
    """What is computed after a call is ready waits for its end, so that nothing of it is hidden.

    A receive is left as it is: it is ready from the start, and only its readers wait for it.
    """
    for body, rows in job.rows(ANY).items():
        job.edit(body, partial(_serialized, rows))


def _serialized(rows: I64, rewrite: Rewrite) -> None:
    """Host communication against host work, device communication against the device's."""
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
    """For each row, how far in `order` the last row is that it waits for, directly or not; from 1."""
    number = np.zeros(len(body), np.int64)
    number[order] = np.arange(1, len(order) + 1)
    src, dst, _ = waits(body)
    starts = np.arange(0, 2 * len(body), 2)
    src, dst = np.r_[src, starts], np.r_[dst, starts + 1]
    marks = np.where(src // 2 == dst // 2, 0, number[src // 2])
    return highest_before(2 * len(body), src, dst, marks)[1::2]
