"""Portable: rewrites a run for readers that know only "start after all parents end".

Groups are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.passes.base import Pass
from chakrakit.passes.plain_graph import GAP, PlainGraph, TimedRows, plain_graph
from chakrakit.passes.slots import joined, serial_span_ns, slots_of
from chakrakit.trace.communication import WORLD, Binding, Groups, group_names, positive_names
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

# --- groups, numbered from 1 as simulators of Chakra traces expect ------------------------------

_NEW = "\0all"
"""Name of the group of all ranks while the traces define none; no group of a file has a NUL in its name."""


def _check_recorded(run: Run) -> None:
    """Refuses groups that nothing defines and messages with ranks that are not here: no reader has them."""
    everyone = tuple(run.ranks)
    for rank, binding in run.bindings.items():
        peers = {binding.peers.get(p, p) for p in run.calls_at(binding.body).peers.tolist()}
        if absent := sorted(peers - set(everyone)):
            raise TraceError(
                f"rank {rank} exchanges messages with rank {absent[0]}, which was not recorded; "
                "record all ranks"
            )
    for group in run.communication.groups:
        if run.groups.ranks_of(group.name, everyone) is None:
            raise TraceError(
                f"the traces use group {group.name!r}, and nothing says which ranks it has; "
                "put groups.json beside them"
            )


@dataclass(frozen=True, eq=False)
class NumberedGroups:
    """New names of groups: positive numbers stay, every other name is replaced by a free number."""

    names: Mapping[str, str]
    groups: Groups
    world: str
    """The name of the group of all ranks."""

    @classmethod
    def of(cls, traces: TraceSet) -> NumberedGroups:
        """Numbers the groups of a set, limited to its recorded ranks, and adds one of all of them."""
        present = set(traces.ranks)
        members = {n: tuple(r for r in ranks if r in present) for n, ranks in traces.groups.items()}
        members = {name: ranks for name, ranks in members.items() if ranks}
        names = positive_names([*members, _NEW])
        everyone = tuple(traces.ranks)
        all_ranks = (names[n] for n, ranks in members.items() if tuple(ranks) == everyone)
        world = next(all_ranks, names[_NEW])
        groups = {names[n]: ranks for n, ranks in members.items()} | {world: everyone}
        for name in WORLD:
            names.setdefault(name, world)
        return cls(names, Groups(groups), world)

    def binding(self, binding: Binding, body: int) -> Binding:
        """Returns a rank's binding to its plain body, with the new group names."""
        renamed = {self.names.get(a, a): self.names.get(b, b) for a, b in binding.groups.items()}
        return Binding(body, renamed, binding.peers, 1.0)

    def renamed(self, groups: pa.Array | None, collective: Mask) -> pa.Array:
        """Returns the new name of each node's group.

        Collectives without a group belong to that of all ranks.
        """
        if groups is None:
            return pa.array([self.world if c else None for c in collective], pa.string())
        coded = groups.cast(pa.string()).dictionary_encode()
        texts = pa.array([self.names.get(t, t) for t in coded.dictionary.to_pylist()], pa.string())
        new_names = texts.take(coded.indices)
        missing = pa.array(np.asarray(collective)) if len(new_names) else pa.array([], pa.bool_())
        world = pa.array([self.world] * len(new_names), pa.string())
        return pc.if_else(pc.and_(missing, pc.is_null(new_names)), world, new_names)


# --- the order of collectives in a group --------------------------------------------------------


def in_group_order(graph: PlainGraph, trace: Trace) -> PlainGraph:
    """Returns the graph with an edge between collectives that follow each other in a group.

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
    """Cuts a collective at time `at`; what depends on it then waits for the rest, a gap."""
    rest = len(row)
    row.append(GAP)
    start.append(at)
    ends.append(ends[first])
    ends[first] = at
    extra.append((first, rest))
    return np.where(src == first, rest, src)


def _sorted(row: I64, start: I64, end: I64, src: I64, dst: I64, dropped: int) -> PlainGraph:
    """Sorts nodes by time, so that parents come first, and removes duplicate edges."""
    order = np.lexsort((np.arange(len(row)), start))
    place = np.empty(len(row), np.int64)
    place[order] = np.arange(len(row))
    pairs = np.unique(np.stack([place[dst], place[src]], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return PlainGraph(row[order], start[order], end[order], pairs[:, 1], pairs[:, 0], dropped)


_OURS = {"id", "name", "type", "start_time_micros", "duration_micros", "ctrl_deps", "data_deps"}
_DROPPED = {
    "edge_kinds", "edge_lags_ns", "own_ns", "start_time_ns", "duration_ns", "is_cpu_op", *PARENT_COLUMNS
}  # fmt: skip
"""Columns that do not apply to pieces, which run one after another and never inside each other."""
_WORK = ("num_ops", "tensor_size")
_MEMBERS = ("inputs_", "outputs_")


@dataclass(frozen=True)
class Portable(Pass):
    """Rewrite nodes and dependencies so that the plain reading of the files gives the same schedule.

    Host operators are cut where something starts from them or where they wait, gaps become nodes, every
    dependency means "starts after the end of", and durations are differences of rounded times. Communication
    runs on the device's side, in the order of its group, and groups are numbered from 1. ASTRA-sim runs one
    node of the host and one of the device at a time: with `one_at_a_time` what overlaps is joined, so that
    its answer is the recording's, and each stretch of time is named after one of the operators in it.
    """

    one_at_a_time: bool = False

    name: ClassVar[str] = "portable"
    preserves: ClassVar[str] = (
        "the time of every operator, the makespan, communication and its bytes; not the number of nodes"
    )

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns plain traces with the run's times in their nodes."""
        run = _timed(traces)
        begin, finish = run.span_ns
        groups = NumberedGroups.of(run)
        _check_recorded(run)
        bodies: list[Trace] = []
        numbers: dict[object, int] = {}
        bindings: dict[int, Binding] = {}
        for rank, binding in run.bindings.items():
            timing = binding.body if run.times is None else run.timing[rank]
            key = (binding.body, timing, binding.scale)
            if key not in numbers:
                numbers[key] = len(bodies)
                bodies.append(_plain(run, rank, begin, finish, groups, self.one_at_a_time))
            bindings[rank] = groups.binding(binding, numbers[key])
        card = run.card.replace(kind="traces", epoch_ns=0, tick_ps=1000)
        return TraceSet(bodies, bindings, groups.groups, card)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """Says the run's makespan, that of a plain reading of the result, and that of one node at a time."""
        traces = [after.trace(rank) for rank in _first_ranks(after)]
        low, high = _timed(before).span_ns
        return {
            "makespan_ns": high - low,
            "plain_makespan_ns": max(plain_span_ns(trace) for trace in traces),
            "one_at_a_time_ns": max(serial_span_ns(trace) for trace in traces),
        }


def _first_ranks(traces: TraceSet) -> list[int]:
    firsts = {binding.body: rank for rank, binding in reversed(traces.bindings.items())}
    return sorted(firsts.values())


def _timed(traces: TraceSet) -> Run:
    if isinstance(traces, Run):
        return traces
    if traces.body(traces.ranks[0]).is_timed:
        bodies = [traces.body_at(n) for n in range(traces.body_count)]
        return Run(bodies, traces.bindings, traces.groups, traces.card)
    raise TraceError("portable needs times: link a recording, or simulate the traces first")


def _plain(
    run: Run, rank: int, begin: int, finish: int, groups: NumberedGroups, one_at_a_time: bool
) -> Trace:
    trace = run.body(rank)  # as the body names groups and peers; the binding stays
    rows = timed_rows(trace, *whole_ns(run.times_of(rank), run.tick_ps))
    graph = in_group_order(plain_graph(rows, begin, finish), trace)
    if one_at_a_time:
        graph = joined(graph, slots_of(graph, on_host(trace), is_communication(trace)))
    return _plain_trace(trace, graph, begin, groups)


def timed_rows(trace: Trace, start: I64, end: I64) -> TimedRows:
    """Returns a trace's rows with these times, ready to be cut into pieces."""
    host = on_host(trace)
    comm = is_communication(trace)
    idle = trace.is_type(NodeType.METADATA_NODE, NodeType.INVALID_NODE) & ~host
    ran = end >= np.maximum(start, 0)
    duration = end - start
    own_ns = np.asarray(trace.column("own_ns", -1), np.int64)
    own_ns = np.where(own_ns >= 0, np.minimum(own_ns, duration), duration)
    return TimedRows(
        start, end, own_ns, host & ~comm, _lanes(trace, host, comm), ran & ~idle, trace.edges
    )


def _lanes(trace: Trace, host: Mask, comm: Mask) -> I64:
    """A number for each stream and thread; communication of the host has none."""
    lane = lane_of(trace)
    threads = np.where(lane != NO_LANE, lane, stream_lane(0) + 1)
    return np.where(host & ~comm, threads, np.where(host, NO_LANE, lane))


def _plain_trace(trace: Trace, graph: PlainGraph, begin: int, groups: NumberedGroups) -> Trace:
    from_row = graph.row != GAP
    rows = np.where(from_row, graph.row, 0)
    take = pa.array(rows, mask=~from_row)
    start, end = graph.start - begin, graph.end - begin
    micros = (end // 1000) - (start // 1000)
    names = trace.names.combine_chunks().cast(pa.string()).take(take).fill_null("gap")
    comm = is_communication(trace)[rows] & from_row
    announced = trace.is_type(*COMMUNICATION)[rows] & ~comm  # by the host, before a kernel does it
    types = np.where(from_row & ~announced, trace.types[rows], NodeType.COMP_NODE)
    host = on_host(trace)[rows] | ~from_row
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
        columns["pg_name"] = groups.renamed(
            columns.get("pg_name"), types == NodeType.COMM_COLL_NODE
        )
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
    """Copies other attributes to every piece of a node; those about communication only to calls."""
    return {
        name: trace.table.column(name)
        .combine_chunks()
        .take(calls if name.startswith(("comm_", "pg_")) else take)
        for name in trace.nodes.column_names
        if name not in _OURS | _DROPPED | set(_WORK) and not name.startswith(_MEMBERS)
    }


def _work(trace: Trace, graph: PlainGraph, comm: Mask) -> dict[str, Any]:
    """Puts operations and bytes on the longest piece of each row, and zeros on other compute nodes."""
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
