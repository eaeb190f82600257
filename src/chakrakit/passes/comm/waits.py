"""What waits for what within a body, between starts and ends of rows; lanes count as far as no edge does."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import COMMUNICATION, EdgeForm, EdgeKind, Graph, Trace
from chakrakit.trace.placement import implied_order

_TURN = [int(k) for k in (EdgeKind.CTRL, EdgeKind.STREAM, EdgeKind.THREAD)]


def is_comm(body: Trace) -> Mask:
    """The rows that communicate."""
    return body.is_type(*COMMUNICATION)


def turn_edges(body: Trace) -> Mask:
    """Which edges say only that one communication takes its turn after another."""
    edges, comm = body.edges, is_comm(body)
    both = comm[edges.src] & comm[edges.dst] & np.isin(edges.kind, _TURN)
    mask: Mask = both & (edges.form == EdgeForm.FINISH_START)
    return mask


def waits(body: Trace) -> tuple[I64, I64, Mask]:
    """Pairs of events (start: 2 × row, end: 2 × row + 1), and which of them are turns."""
    edges, comm = body.edges, is_comm(body)
    before, after = implied_order(body)
    src = 2 * edges.src.astype(np.int64) + (edges.form != EdgeForm.START_START)
    dst = 2 * edges.dst.astype(np.int64) + (edges.form == EdgeForm.FINISH_FINISH)
    turn = np.r_[turn_edges(body), comm[before] & comm[after]]
    return np.r_[src, 2 * before + 1], np.r_[dst, 2 * after], turn


def highest_before(events: int, src: I64, dst: I64, marks: I64) -> I64:
    """For each event, the highest mark of any edge on the ways that lead to it; 0 for none."""
    marked = np.flatnonzero(marks)
    graph = Graph(events + 1, np.r_[src, np.full(len(marked), events)], np.r_[dst, dst[marked]])
    lags = np.r_[np.zeros(len(src), np.int64), marks[marked]]
    found, _ = graph.longest_path(np.zeros(events + 1, np.int64), lags)
    return found[:events]
