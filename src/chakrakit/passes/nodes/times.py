"""Times in nodes: what a pass reads and writes when it changes how long work takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, U64, Mask
from chakrakit.trace.communication import Binding, Body, bind
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import is_communication, on_host
from chakrakit.trace.sets import Run, TraceSet


def with_own_ns(trace: Trace, own: I64) -> Trace:
    """The trace with these times of its nodes' own work.

    A host row of a recording keeps its duration, which holds what ran inside it, and communication
    that was timed the one that holds waiting for peers; their own time is an attribute beside it.
    Every other row's duration is its own time.
    """
    changed = own != trace.own_ns
    if not changed.any():
        return trace
    own = np.maximum(own, 0)
    waits = on_host(trace) | is_communication(trace)
    beside = trace.has("own_ns") | (waits & trace.is_timed)
    duration = np.where(changed & ~beside, own, trace.duration_ns)
    micros = _micros(trace, own, changed)
    exact = trace.has("duration_ns") | (duration != micros.astype(np.int64) * 1000)
    columns: dict[str, object] = {
        "duration_micros": micros,
        "duration_ns": pa.array(duration, mask=~exact) if exact.any() else None,
    }
    if beside.any():
        said = np.where(changed, beside & (own != duration), trace.has("own_ns"))
        columns["own_ns"] = pa.array(own, mask=~said) if said.any() else None
    return trace.with_columns(columns)


def _micros(trace: Trace, own: I64, changed: Mask) -> U64:
    """For tools that know whole microseconds only, as the trace had them."""
    now = trace.column("duration_micros")
    if (now == _spread(trace.own_ns)).all():
        return _spread(own)
    found: U64 = np.where(changed, (own // 1000).astype(np.uint64), now)
    return found


def _spread(nanos: I64) -> U64:
    """As linked traces have them: what is cut off one row is given to a later one."""
    return np.diff(np.cumsum(nanos) // 1000, prepend=0).astype(np.uint64)


def with_run_times(traces: TraceSet) -> TraceSet:
    """The same ranks, every time in the nodes: a run's own times, and what a rank's scale makes of them.

    Ranks share a body where they shared one with the same times and scale.
    """
    timing = traces.timing if isinstance(traces, Run) and traces.times is not None else {}
    if not timing and all(b.scale == 1.0 for b in traces.bindings.values()):
        return traces
    numbers: dict[tuple[int, float, int], int] = {}
    bodies: list[Body] = []
    bindings = {}
    for rank, binding in traces.bindings.items():
        key = (binding.body, binding.scale, timing.get(rank, -1))
        if key not in numbers:
            numbers[key] = len(bodies)
            bodies.append(partial(_timed_body, traces, rank))
        bindings[rank] = replace(binding, body=numbers[key], scale=1.0)
    return TraceSet(bodies, bindings, traces.groups, traces.card.replace(kind="traces"))


def _timed_body(traces: TraceSet, rank: int) -> Trace:
    if isinstance(traces, Run) and traces.times is not None:
        return traces.timed_body(rank)
    return bind(traces.body(rank), Binding(0, scale=traces.bindings[rank].scale))
