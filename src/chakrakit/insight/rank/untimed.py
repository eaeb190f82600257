"""Traces without times made into a run to look at: every rank scheduled by itself."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import DeadlockError
from chakrakit.insight.rank.view import RankView
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import PS_PER_NS, Run, Times, TraceSet, run_of
from chakrakit.trace.timing import Schedule, schedule

_UNIT_NS = 1_000


def scheduled(traces: TraceSet) -> tuple[Run, str]:
    """A run of traces that have no times, and a sentence on how it was made.

    Every node starts as soon as its dependencies and its lane (stream, engine, thread) allow, and
    takes its own duration; where a rank has no durations at all, 1 µs per node. Nobody waits for peers.
    """
    known: dict[tuple[int, float], Times] = {}
    bare = False
    times = {}
    for rank in traces.ranks:
        binding = traces.bindings[rank]
        key = (binding.body, binding.scale)
        if key not in known:
            trace = traces.trace(rank)
            bare = bare or not trace.own_ns.any()
            known[key] = _times(trace)
        times[rank] = known[key]
    how = (
        "1 µs per node where there are no durations" if bare else "with the durations in the trace"
    )
    return run_of(traces, times, tick_ps=PS_PER_NS), (
        f"This trace has no times. Shown is the order its dependencies allow, {how}, every rank by itself; "
        "simulate it (chakra simulate) for times that mean something."
    )


def _times(trace: Trace) -> Times:
    lengths = np.maximum(trace.own_ns, 0)
    if not lengths.any():
        lengths = np.full(len(trace), _UNIT_NS, np.int64)
    free = schedule(len(trace), trace.edges, lengths)
    found = _on_lanes(trace, lengths, free)
    return Times(found.start, found.end)


def _on_lanes(trace: Trace, lengths: I64, free: Schedule) -> Schedule:
    """One node at a time on a lane, in the order in which they could have begun."""
    lane, _ = RankView(0, trace, free.start, free.end, False).lanes
    place = np.arange(len(trace))
    if trace.graph.is_acyclic:
        # Of nodes that could begin at once, what others need goes first.
        place[trace.graph.topological_order()] = np.arange(len(trace))
    order = np.empty(len(trace), np.int64)
    order[np.lexsort((place, free.start))] = np.arange(len(trace))
    try:
        return schedule(len(trace), trace.edges, lengths, resource=lane, order=order)
    except DeadlockError:
        # Ends that wait for ends on their own lane cannot be serial.
        return free
