"""Portable: the same schedule for readers that know nothing but "start after all parents end"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.passes.base import Pass
from chakrakit.passes.portable.collective_order import in_group_order
from chakrakit.passes.portable.numbered_groups import NumberedGroups
from chakrakit.passes.portable.pieces import TimedRows
from chakrakit.passes.portable.plain_graph import GAP, PlainGraph, plain_graph
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import (
    COMMUNICATION,
    PARENT_COLUMNS,
    EdgeForm,
    EdgeKind,
    Edges,
    NodeType,
    Trace,
)
from chakrakit.trace.placement import NO_LANE, is_communication, lane_of, on_host, stream_lane
from chakrakit.trace.sets import Run, TraceSet, whole_ns
from chakrakit.trace.timing import plain_span_ns

_OURS = {"id", "name", "type", "start_time_micros", "duration_micros", "ctrl_deps", "data_deps"}
_DROPPED = {
    "edge_kinds", "edge_lags_ns", "own_ns", "start_time_ns", "duration_ns", "is_cpu_op", *PARENT_COLUMNS
}  # fmt: skip
"""What means something else, or nothing, of pieces: they run one after another, none inside another."""
_WORK = ("num_ops", "tensor_size")
_MEMBERS = ("inputs_", "outputs_")


@dataclass(frozen=True)
class Portable(Pass):
    """Rewrite nodes and dependencies so that the plain reading of the files gives the same schedule.

    Host operators are cut where something starts from them or where they wait, gaps become nodes, every
    dependency means "starts after the end of", and durations are differences of rounded times. Communication
    runs on the device's side, in the order of its group, and groups are numbered from 1.
    """

    name: ClassVar[str] = "portable"
    preserves: ClassVar[str] = (
        "the time of every operator, the makespan, communication and its bytes; not the number of nodes"
    )

    def apply(self, traces: TraceSet) -> TraceSet:
        """Plain traces with the run's times in their nodes."""
        run = _timed(traces)
        begin, finish = run.span_ns
        groups = NumberedGroups.of(run)
        bodies: list[Trace] = []
        numbers: dict[object, int] = {}
        bindings: dict[int, Binding] = {}
        for rank, binding in run.bindings.items():
            timing = binding.body if run.times is None else run.timing[rank]
            key = (binding.body, timing, binding.scale)
            if key not in numbers:
                numbers[key] = len(bodies)
                bodies.append(_plain(run, rank, begin, finish, groups))
            bindings[rank] = groups.binding(binding, numbers[key])
        card = run.card.replace(kind="traces", epoch_ns=0, tick_ps=1000)
        return TraceSet(bodies, bindings, groups.groups, card)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many nodes there were and are, and what the plain reading gives."""
        longest = max(plain_span_ns(after.trace(rank)) for rank in _some(after))
        low, high = _timed(before).span_ns
        return {"makespan_ns": high - low, "plain_makespan_ns": longest}


def _some(traces: TraceSet) -> list[int]:
    firsts = {binding.body: rank for rank, binding in reversed(traces.bindings.items())}
    return sorted(firsts.values())


def _timed(traces: TraceSet) -> Run:
    if isinstance(traces, Run):
        return traces
    if traces.body(traces.ranks[0]).is_timed:
        bodies = [traces.body_at(n) for n in range(traces.body_count)]
        return Run(bodies, traces.bindings, traces.groups, traces.card)
    raise TraceError("portable needs times: link a recording, or simulate the traces first")


def _plain(run: Run, rank: int, begin: int, finish: int, groups: NumberedGroups) -> Trace:
    trace = run.body(rank)  # as the body names groups and peers; the binding stays
    rows = timed_rows(trace, *whole_ns(run.times_of(rank), run.tick_ps))
    graph = in_group_order(plain_graph(rows, begin, finish), trace)
    return _written(trace, graph, begin, groups)


def timed_rows(trace: Trace, start: I64, end: I64) -> TimedRows:
    """A trace's rows with these times, as they are cut into pieces."""
    host = on_host(trace)
    comm = is_communication(trace)
    idle = trace.is_type(NodeType.METADATA_NODE, NodeType.INVALID_NODE) & ~host
    ran = end >= np.maximum(start, 0)
    duration = end - start
    own = np.asarray(trace.column("own_ns", -1), np.int64)
    own = np.where(own >= 0, np.minimum(own, duration), duration)
    return TimedRows(
        start, end, own, host & ~comm, _lanes(trace, host, comm), ran & ~idle, trace.edges
    )


def _lanes(trace: Trace, host: Mask, comm: Mask) -> I64:
    """A number for each stream and thread; communication of the host has none."""
    lane = lane_of(trace)
    threads = np.where(lane != NO_LANE, lane, stream_lane(0) + 1)
    return np.where(host & ~comm, threads, np.where(host, NO_LANE, lane))


def _written(trace: Trace, graph: PlainGraph, begin: int, groups: NumberedGroups) -> Trace:
    known = graph.row != GAP
    rows = np.where(known, graph.row, 0)
    take = pa.array(rows, mask=~known)
    start, end = graph.start - begin, graph.end - begin
    micros = (end // 1000) - (start // 1000)
    names = trace.names.combine_chunks().cast(pa.string()).take(take).fill_null("gap")
    comm = is_communication(trace)[rows] & known
    announced = trace.is_type(*COMMUNICATION)[rows] & ~comm  # by the host, before a kernel does it
    types = np.where(known & ~announced, trace.types[rows], NodeType.COMP_NODE)
    host = on_host(trace)[rows] | ~known
    columns: dict[str, Any] = {
        "name": names,
        "type": types,
        "start_time_micros": (start // 1000).astype(np.uint64),
        "duration_micros": micros.astype(np.uint64),
        "is_cpu_op": host & ~comm,
        "start_time_ns": start,
        "duration_ns": end - start,
        **_attributes(trace, take, pa.array(rows, mask=~comm)),
        **_work(trace, graph, comm),
    }
    if "pg_name" in columns or comm.any():
        columns["pg_name"] = groups.named(columns.get("pg_name"), types == NodeType.COMM_COLL_NODE)
    n = len(graph.src)
    edges = Edges(
        graph.src.astype(np.int32),
        graph.dst.astype(np.int32),
        np.full(n, EdgeKind.DATA, np.int8),
        np.full(n, EdgeForm.FINISH_START, np.int8),
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
    )
    return Trace.from_columns(columns, edges, trace.metadata)


def _attributes(trace: Trace, take: pa.Array, calls: pa.Array) -> dict[str, Any]:
    """What else nodes carry, on every piece of theirs; what is about communication, on calls alone."""
    return {
        name: trace.table.column(name)
        .combine_chunks()
        .take(calls if name.startswith(("comm_", "pg_")) else take)
        for name in trace.nodes.column_names
        if name not in _OURS | _DROPPED | set(_WORK) and not name.startswith(_MEMBERS)
    }


def _work(trace: Trace, graph: PlainGraph, comm: Mask) -> dict[str, Any]:
    """Operations and bytes on the longest piece of each row; other compute nodes say that they have none."""
    rows = np.maximum(graph.row, 0)
    longest = np.zeros(len(rows), np.bool_)
    order = np.lexsort((graph.start - graph.end, graph.row))
    first = np.r_[True, graph.row[order][1:] != graph.row[order][:-1]] if len(order) else []
    longest[order[np.asarray(first, np.bool_)]] = True
    longest &= graph.row != GAP
    return {
        name: pa.array(
            np.where(longest, trace.column(name, 0)[rows], 0).astype(np.int64), mask=comm
        )
        for name in _WORK
    }
