"""A set of traces with some rows of each rank; ranks that stay alike go on sharing a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from chakrakit.arrays import Mask
from chakrakit.passes.select.bridging import with_bridging_edges
from chakrakit.trace.communication import Body
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times, TraceSet


def with_rows(traces: TraceSet, kept: Mapping[int, Mask]) -> TraceSet:
    """The same ranks with these rows; a run stays one."""
    if all(mask.all() for mask in {id(mask): mask for mask in kept.values()}.values()):
        return traces
    masks = {id(mask): mask.tobytes() for mask in kept.values()}  # ranks alike share one
    bodies: dict[tuple[int, bytes], int] = {}
    made: list[Body] = []
    bindings = {}
    for rank, binding in traces.bindings.items():
        key = (binding.body, masks[id(kept[rank])])
        if key not in bodies:
            bodies[key] = len(made)
            made.append(partial(_body, traces, binding.body, kept[rank]))
        bindings[rank] = replace(binding, body=bodies[key])
    if not isinstance(traces, Run):
        return TraceSet(made, bindings, traces.groups, traces.card)
    if traces.times is None:
        return Run(made, bindings, traces.groups, traces.card)
    classes: dict[tuple[int, int], int] = {}
    times: list[Times] = []
    timing = {}
    for rank in traces.ranks:
        pair = (traces.timing[rank], bindings[rank].body)
        if pair not in classes:
            classes[pair] = len(times)
            old = traces.times_of(rank)
            times.append(Times(old.start[kept[rank]], old.end[kept[rank]]))
        timing[rank] = classes[pair]
    return Run(made, bindings, traces.groups, traces.card, times=times, timing=timing)


def _body(traces: TraceSet, number: int, kept: Mask) -> Trace:
    return with_bridging_edges(traces.body_at(number), kept)
