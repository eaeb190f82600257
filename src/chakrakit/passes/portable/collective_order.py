"""Collectives of one group follow each other: each one's node depends on the one before."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.passes.portable.plain_graph import GAP, PlainGraph
from chakrakit.trace.communication import group_names
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import is_communication


def in_group_order(graph: PlainGraph, trace: Trace) -> PlainGraph:
    """The graph with an edge between collectives that follow each other in a group.

    Where two overlap in time, the first ends where the second starts, and what is left of it follows as a gap
    that its readers wait for: the order is kept, and no time is lost.
    """
    rows = np.maximum(graph.row, 0)
    called = is_communication(trace) & trace.is_type(NodeType.COMM_COLL_NODE)
    collective = (graph.row != GAP) & called[rows]
    places = np.flatnonzero(collective)
    groups = group_names(trace, graph.row[places]).to_pylist()
    last: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    order = np.lexsort((places, graph.start[places])).tolist()
    for k in order:
        name, place = groups[k], int(places[k])
        if name in last:
            pairs.append((last[name], place))
        last[name] = place
    return _joined(graph, pairs)


def _joined(graph: PlainGraph, pairs: list[tuple[int, int]]) -> PlainGraph:
    end = graph.end.copy()
    row, start = graph.row.tolist(), graph.start.tolist()
    ends = end.tolist()
    src, dst = graph.src.copy(), graph.dst
    extra: list[tuple[int, int]] = []
    for first, second in pairs:
        if ends[first] > start[second]:
            src = _split(first, start[second], row, start, ends, src, extra)
        extra.append((first, second))
    added = np.array(extra, np.int64).reshape(-1, 2)
    return _sorted(
        np.array(row, np.int64),
        np.array(start, np.int64),
        np.array(ends, np.int64),
        np.r_[src, added[:, 0]],
        np.r_[dst, added[:, 1]],
        graph.dropped,
    )


def _split(
    first: int,
    at: int,
    row: list[int],
    start: list[int],
    ends: list[int],
    src: I64,
    extra: list[tuple[int, int]],
) -> I64:
    """Cuts a collective at `at`; its readers wait for the rest."""
    rest = len(row)
    row.append(GAP)
    start.append(at)
    ends.append(ends[first])
    ends[first] = at
    extra.append((first, rest))
    return np.where(src == first, rest, src)


def _sorted(row: I64, start: I64, end: I64, src: I64, dst: I64, dropped: int) -> PlainGraph:
    """Nodes by time again, so that parents come first; each edge once."""
    order = np.lexsort((np.arange(len(row)), start))
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row))
    pairs = np.unique(np.stack([place[dst], place[src]], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return PlainGraph(row[order], start[order], end[order], pairs[:, 1], pairs[:, 0], dropped)
