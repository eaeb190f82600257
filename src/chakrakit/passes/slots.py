"""Slots: what ASTRA-sim runs of a rank at a time: a node of the host, one of the device, one of messages.

Threads of a host, streams of a device and gaps overlap in a recording. ASTRA-sim takes such nodes one after
another, so that its answer is longer than the recording. `joined` cuts what overlaps in a slot at every start
and end, and keeps one node for each stretch: the times at which anything begins and ends stay, and which of
the operators that ran together is named is all that is lost.
"""

from __future__ import annotations

import heapq

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.passes.plain_graph import GAP, PlainGraph
from chakrakit.trace.model import COMMUNICATION, NodeType, Trace

_HOST, _DEVICE, _COMMUNICATION, _NONE = 0, 1, 2, 3


def serial_span_ns(trace: Trace) -> int:
    """How long a plain trace takes with one node of each slot at a time, the lowest id that is ready first.

    Receives take no slot; communication takes the time that it took.
    """
    slots = np.where(trace.on_host, _HOST, _DEVICE)
    slots[trace.is_type(*COMMUNICATION)] = _COMMUNICATION
    slots[trace.is_type(NodeType.COMM_RECV_NODE)] = _NONE
    length = (trace.end_ns - trace.start_ns).tolist()
    children: list[list[int]] = [[] for _ in length]
    for source, target in zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), strict=True):
        children[source].append(target)
    missing = np.bincount(trace.edges.dst, minlength=len(length)).tolist()
    return _serial(slots.tolist(), length, children, missing)


def _serial(
    slots: list[int], length: list[int], children: list[list[int]], missing: list[int]
) -> int:
    ready: list[list[int]] = [[] for _ in range(_NONE + 1)]
    running: list[tuple[int, int]] = []
    busy = [False] * (_NONE + 1)
    for node, count in enumerate(missing):
        if not count:
            heapq.heappush(ready[slots[node]], node)
    now = 0
    while True:
        for slot, waiting in enumerate(ready):
            while waiting and not busy[slot]:
                node = heapq.heappop(waiting)
                busy[slot] = slot != _NONE
                heapq.heappush(running, (now + length[node], node))
        if not running:
            return now
        now, node = heapq.heappop(running)
        busy[slots[node]] = False
        for child in children[node]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready[slots[child]], child)


def joined(graph: PlainGraph, slot: I64) -> PlainGraph:
    """The graph in which no two nodes of a slot overlap; nodes of slot -1 stay as they are."""
    for number in (_HOST, _DEVICE):
        graph, slot = _joined(graph, slot, number)
    return graph


def slots_of(graph: PlainGraph, host: Mask, communication: Mask) -> I64:
    """The slot of every node of a graph: gaps are the host's, and communication is not joined."""
    rows = np.maximum(graph.row, 0)
    slot = np.where((graph.row == GAP) | host[rows], _HOST, _DEVICE)
    return np.where((graph.row != GAP) & communication[rows], -1, slot)


def _joined(graph: PlainGraph, slot: I64, number: int) -> tuple[PlainGraph, I64]:
    mine = np.flatnonzero((slot == number) & (graph.end > graph.start))
    mine = mine[np.argsort(graph.start[mine], kind="stable")]
    overlapping = _overlapping(graph.start[mine], graph.end[mine])
    mine = mine[overlapping]
    if not len(mine):
        return graph, slot
    bounds = np.unique(np.r_[graph.start[mine], graph.end[mine]])
    owner = _owners(graph, mine, bounds)
    stretches = np.flatnonzero(owner >= 0)
    n = len(graph.row)
    place = np.full(len(bounds), -1, np.int64)
    place[stretches] = n + np.arange(len(stretches))
    begins = np.arange(n)
    ends = np.arange(n)
    begins[mine] = place[np.searchsorted(bounds, graph.start[mine])]
    ends[mine] = place[np.searchsorted(bounds, graph.end[mine]) - 1]
    follow = np.flatnonzero(np.diff(stretches) == 1)
    row = np.r_[graph.row, graph.row[owner[stretches]]]
    start = np.r_[graph.start, bounds[stretches]]
    end = np.r_[graph.end, bounds[stretches + 1]]
    src = np.r_[ends[graph.src], n + follow]
    dst = np.r_[begins[graph.dst], n + follow + 1]
    keep = np.ones(len(row), np.bool_)
    keep[mine] = False
    slot = np.r_[slot, np.full(len(stretches), number)]
    hidden = _hidden(row, mine, keep)
    keep[hidden] = True
    start[hidden] = end[hidden]
    src, dst = np.r_[src, ends[hidden]], np.r_[dst, hidden]
    return _kept(PlainGraph(row, start, end, src, dst, graph.dropped), slot, keep)


def _hidden(row: I64, mine: I64, keep: Mask) -> I64:
    """One node of each row that no stretch is named after: it stays, without time, for its work."""
    lost = mine[(row[mine] != GAP) & ~np.isin(row[mine], row[keep])]
    _, first = np.unique(row[lost], return_index=True)
    return np.asarray(lost[first])


def _overlapping(start: I64, end: I64) -> Mask:
    """Which of the nodes, sorted by start, share some time with another."""
    before = np.r_[np.int64(-1), np.maximum.accumulate(end)[:-1]] if len(end) else end
    late = start < before
    group = np.cumsum(~late)
    return np.isin(group, group[late])


def _owners(graph: PlainGraph, mine: I64, bounds: I64) -> I64:
    """The node that each stretch between two bounds is named after: the latest that began, gaps last."""
    owner = np.full(len(bounds), -1, np.int64)
    first = np.lexsort((graph.start[mine], graph.row[mine] != GAP))
    for node in mine[first].tolist():  # a later one takes the place of an earlier one
        low, high = np.searchsorted(bounds, (graph.start[node], graph.end[node]))
        owner[low:high] = node
    return owner


def _kept(graph: PlainGraph, slot: I64, keep: Mask) -> tuple[PlainGraph, I64]:
    """Without the nodes that were cut, in the order of time."""
    order = np.flatnonzero(keep)
    order = order[np.lexsort((order, graph.end[order], graph.start[order]))]
    place = np.full(len(keep), -1, np.int64)
    place[order] = np.arange(len(order))
    pairs = np.unique(np.stack([place[graph.dst], place[graph.src]], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    out = PlainGraph(
        graph.row[order],
        graph.start[order],
        graph.end[order],
        pairs[:, 1],
        pairs[:, 0],
        graph.dropped,
    )
    return out, slot[order]
