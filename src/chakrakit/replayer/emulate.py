"""From any trace to a plan of waits and communication: what `emulate` and `comm` replay.

Every node keeps its dependencies; compute takes its recorded time (none, in `comm`) without doing
anything, and communication is real. So a network can be exercised with no accelerator and no model,
also by traces that never ran.
"""

from __future__ import annotations

import numpy as np

from chakrakit.errors import TraceError
from chakrakit.replayer.compile import Exchanged, PlanPlace, exchanged_of
from chakrakit.replayer.options import ReplayOptions
from chakrakit.replayer.plan import FORMAT, VERSION, ProcessGroup, RankPlan
from chakrakit.replayer.ranks import ReplayWorld
from chakrakit.replayer.recording import RecordedRows
from chakrakit.trace.model import EdgeKind, NodeType

_WORK = (EdgeKind.THREAD, EdgeKind.STREAM)
"""Kinds of edges that order communication only by who carried it out."""


class EmulationPlan(RankPlan, kw_only=True):
    """One rank's nodes: durations, when they may start at the earliest, and what they wait for.

    `waits` has, for every node, [node, form, lag_ns] for each dependency; forms are 0 finish→start,
    1 start→start, 2 finish→finish. `lanes` are resources that do one node at a time; -1 for none.
    """

    durations: list[int]
    release: list[int]
    lanes: list[int]
    waits: list[list[tuple[int, int, int]]]
    communication: dict[int, Exchanged]
    order: list[int]
    """Communication in the order of issue."""


def emulate_rank(
    seen: RecordedRows,
    world: ReplayWorld,
    rank: int,
    groups: list[ProcessGroup],
    options: ReplayOptions,
) -> EmulationPlan:
    """The plan of one rank."""
    trace = seen.trace
    if options.mode == "emulate" and not trace.duration_ns.any():
        raise TraceError(
            f"rank {seen.rank} has no times to wait for; simulate the trace first "
            "(chakra simulate -o RUN), or use --mode comm"
        )
    place = PlanPlace(seen, world, rank, groups, options.shrink)
    found = {row: exchanged_of(place, row) for row in np.flatnonzero(seen.is_comm).tolist()}
    timed = options.mode == "emulate"
    durations = np.where(seen.is_comm, 0, trace.own_ns) if timed else np.zeros(len(trace), int)
    for row, exchanged in found.items():
        if exchanged.group < 0 and timed:
            durations[row] = trace.duration_ns[row]
    done = sum(e.group >= 0 for e in found.values())
    spent = [int(trace.duration_ns[r]) * (found[r].group >= 0) for r in found]
    return EmulationPlan(
        format=FORMAT,
        version=VERSION,
        mode=options.mode,
        rank=rank,
        recorded_rank=seen.rank,
        world=world.size,
        device=options.device,
        backend=options.backend_name,
        groups=groups,
        durations=durations.tolist(),
        release=_release(seen, timed),
        lanes=_lanes(seen),
        waits=_waits(seen, timed),
        communication=found,
        order=_order(seen, list(found)),
        memory={
            options.device: sum(
                max((getattr(e, side) for e in found.values()), default=0)
                for side in ("input", "output")
            )
        },
        count=[done, len(found)],
        time_ns=[sum(spent), int(trace.duration_ns[list(found)].sum())],
    )


def _order(seen: RecordedRows, rows: list[int]) -> list[int]:
    """As the host asked for them; in traces that never ran, none before what it depends on."""
    start = seen.trace.start_ns
    level = seen.trace.graph.levels() if seen.level is None else seen.level

    def key(row: int) -> tuple[int, int, int]:
        issuer = seen.issuers.get(row, -1)
        return int(start[issuer if issuer >= 0 else row]), int(level[row]), row

    return sorted(rows, key=key)


def _release(seen: RecordedRows, timed: bool) -> list[int]:
    """Nodes that wait for nothing start when they did; the others when they can."""
    trace = seen.trace
    if not timed or not trace.is_timed:
        return [0] * len(trace)
    free = np.ones(len(trace), np.bool_)
    free[trace.edges.dst] = False
    start = trace.start_ns - trace.start_ns.min()
    found: list[int] = np.where(free, start, 0).tolist()
    return found


def _lanes(seen: RecordedRows) -> list[int]:
    """One a stream or thread whose order no edge says; compute without a stream shares one."""
    trace = seen.trace
    kinds = set(np.unique(trace.edges.kind).tolist())
    ordered = {int(k) for k in (*_WORK, EdgeKind.CALL)} & kinds
    if ordered:
        return [-1] * len(trace)
    compute = trace.is_type(NodeType.COMP_NODE)
    named = np.where(compute, trace.column("stream", 0), -1)
    _, number = np.unique(named, return_inverse=True)
    found: list[int] = np.where(compute, number, -1).tolist()
    return found


def _waits(seen: RecordedRows, timed: bool) -> list[list[tuple[int, int, int]]]:
    edges, comm = seen.trace.edges, seen.is_comm
    carried = np.isin(edges.kind, [int(k) for k in _WORK]) & comm[edges.src] & comm[edges.dst]
    lag = edges.lag if timed else np.zeros(len(edges.lag), np.int64)
    out: list[list[tuple[int, int, int]]] = [[] for _ in range(len(seen))]
    rows = np.flatnonzero(~carried)
    columns = (edges.src, edges.dst, edges.form, lag)
    for src, dst, form, wait in zip(*(c[rows].tolist() for c in columns), strict=True):
        # A kernel follows its launch by however long the queue was; that is the backend's own.
        out[dst].append((src, form, 0 if comm[dst] else max(wait, 0)))
    return out
