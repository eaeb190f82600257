"""Custom collective algorithms: graphs of messages as execution traces (ETs), MSCCL's XML, MSCCL++'s plans.

All become CollectiveSteps in which every message is one step, which waits for the messages before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from chakrakit.configuration import LARGEST_WRITTEN, MOST_XML_BYTES, read_bounded
from chakrakit.errors import TraceError
from chakrakit.simulator.collectives import CollectiveSteps, TransferStep
from chakrakit.simulator.engine import Custom
from chakrakit.sources.foreign import AlgorithmMessage, AlgorithmPlan, parse_msccl, parse_mscclpp
from chakrakit.trace.model import Graph, NodeType, Trace
from chakrakit.trace.sets import TraceSet


def moves(n: int, pieces: int, messages: list[AlgorithmMessage], name: str) -> CollectiveSteps:
    """The steps of messages, one for each, which waits for those before it."""
    if not messages:
        raise TraceError(f"custom algorithm {name!r}: no member sends another one a message")
    steps = [
        TransferStep(
            src=np.array([m.src]),
            dst=np.array([m.dst]),
            first=np.array([m.piece]),
            count=np.array([m.size]),
            reduce=m.reduce,
            modulus=pieces,
            after=tuple(sorted(m.after)),
            wait=m.wait,
        )
        for m in messages
    ]
    return CollectiveSteps(n, pieces, tuple(steps), name=name)


# --- ETs ----------------------------------------------------------------------------------------


def moves_from_traces(traces: TraceSet, total: float, name: str = "custom") -> CollectiveSteps:
    """The steps of traces in which rank p has the sends, receives and local work of member p.

    `comm_size` is bytes out of `total`, the size of the collective; other sizes are scaled. Local work
    (durations) delays the messages that depend on it.
    """
    pieces = max(1, round(total))
    return moves(len(traces.ranks), pieces, messages_of_traces(traces), name)


def messages_of_traces(traces: TraceSet) -> list[AlgorithmMessage]:
    """The messages of traces, each after those it waits for; sizes are in bytes."""
    nodes, edges, partner = _joined_graph(traces)
    order = (
        Graph(len(nodes), *map(np.array, zip(*edges, strict=True))).topological_order()
        if edges
        else range(len(nodes))
    )
    before: list[set[int]] = [set() for _ in nodes]
    delay = [0.0] * len(nodes)
    parents: dict[int, list[int]] = defaultdict(list)
    for a, b in edges:
        parents[b].append(a)
    messages: list[AlgorithmMessage] = []
    number: dict[int, int] = {}
    for v in list(order):
        trace, row, rank = nodes[v]
        for p in parents[v]:
            if p in number:
                before[v].add(number[p])
            else:
                before[v] |= before[p]
                delay[v] = max(delay[v], delay[p] + _work_seconds(nodes[p]))
        if v in partner:
            number[v] = len(messages)
            size = float(trace.column("comm_size", 0)[row])
            messages.append(AlgorithmMessage(rank, partner[v], size, 0, False, before[v], delay[v]))
    return messages


def _work_seconds(node: tuple[Trace, int, int]) -> float:
    return float(node[0].duration_ns[node[1]]) * 1e-9


def _joined_graph(
    traces: TraceSet,
) -> tuple[list[tuple[Trace, int, int]], list[tuple[int, int]], dict[int, int]]:
    """All nodes, with a send and its receive as one, their edges, and the destination of each message."""
    nodes: list[tuple[Trace, int, int]] = []
    place: dict[tuple[int, int], int] = {}
    partner: dict[int, int] = {}
    ends: dict[int, dict[bool, tuple[int, int]]] = defaultdict(dict)
    routes: dict[int, tuple[int, int, int]] = {}
    for m in traces.collectives.messages.to_pylist():
        ends[m["message"]][m["is_send"]] = (m["rank"], m["row"])
        routes[m["message"]] = (m["src"], m["dst"], m["tag"])
    for number, both in ends.items():
        src, dst, tag = routes[number]
        if len(both) != 2:
            raise TraceError(
                f"custom algorithm: the message from {src} to {dst} (tag {tag}) has one end only"
            )
        place[both[True]] = place[both[False]] = len(nodes)
        partner[len(nodes)] = dst
        nodes.append((traces.trace(src), both[True][1], src))
    edges = []
    for rank, trace in traces:
        for row in np.flatnonzero(
            ~trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
        ).tolist():
            place[rank, row] = len(nodes)
            nodes.append((trace, row, rank))
        e = trace.edges
        edges += [
            (place[rank, a], place[rank, b])
            for a, b in zip(e.src.tolist(), e.dst.tolist(), strict=True)
        ]
    return nodes, edges, partner


# --- MSCCL and MSCCL++ ----------------------------------------------------------------------


def moves_from_msccl(path: Path) -> CollectiveSteps:
    """The steps of an MSCCL algorithm."""
    return _moves_of(parse_msccl(read_bounded(str(path), MOST_XML_BYTES), str(path)))


def moves_from_mscclpp(path: Path) -> CollectiveSteps:
    """The steps of a plan of MSCCL++, whose kernels are its own."""
    plan = parse_mscclpp(read_bounded(str(path), LARGEST_WRITTEN), str(path))
    return replace(_moves_of(plan), own_kernels=True)


def _moves_of(plan: AlgorithmPlan) -> CollectiveSteps:
    return moves(plan.ranks, plan.pieces, plan.messages, plan.name)


def custom_for(collective: str, steps: CollectiveSteps) -> Custom:
    """A function that gives these steps for this collective in groups of as many members."""

    def choose(name: str, members: int, _size: int) -> CollectiveSteps | None:
        return steps if name == collective and members == steps.n else None

    return choose
