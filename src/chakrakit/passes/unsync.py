"""Unsync: host calls that no longer wait for the device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.errors import TraceError
from chakrakit.operators import Work, operator_of
from chakrakit.passes.base import (
    NodeSelection,
    Pass,
    where_named,
    with_bodies,
    with_own_ns,
    with_run_times,
    without_gaps,
)
from chakrakit.passes.edit import SelectedCalls
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet


@dataclass(frozen=True)
class Unsync(Pass):
    """Let the host go on where it waits for the device.

    `names` are regular expressions that the name of a host call begins to match (`cudaStreamSynchronize`,
    `aten::item`), `nodes` its ids; all calls that wait if both are empty. A call keeps its own time, but for
    questions about values (`.item()`) with `unasked`: with all that is inside they take none.
    """

    name = "unsync"
    preserves = "nodes, times, sizes and groups; every edge but those by which chosen calls wait"
    names: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    unasked: bool = False

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces without the waits; choosing none is an error."""
        traces = with_run_times(traces)
        self.refuse_absent(traces)
        bodies = [partial(self._without, traces, i) for i in range(traces.body_count)]
        return with_bodies(traces, bodies)

    def refuse_absent(self, traces: TraceSet) -> None:
        """Raises an error if no chosen call waits for the device."""
        self._selection.refuse_absent(traces)
        if not any(self.waits(traces.body_at(i)).any() for i in range(traces.body_count)):
            raise TraceError(f"{self}: no call that is chosen waits for the device")

    def waits(self, trace: Trace) -> Mask:
        """By edge, whether a chosen call waits by it for the device."""
        edges = trace.edges
        waits: Mask = (edges.kind == EdgeKind.SYNC) & self._selection.rows(trace)[edges.dst]
        return waits

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many waits were removed, over all ranks."""
        counts = [
            sum(int((t.body(r).edges.kind == EdgeKind.SYNC).sum()) for r in t.ranks)
            for t in (before, after)
        ]
        return {"waits": counts[0], "left": counts[1]}

    @property
    def _selection(self) -> NodeSelection:
        return NodeSelection(names=self.names, nodes=self.nodes)

    def _without(self, traces: TraceSet, number: int) -> Trace:
        trace = traces.body_at(number)
        waits = self.waits(trace)
        if not np.any(waits):
            return trace
        asked = np.zeros(len(trace), np.bool_)
        asked[trace.edges.dst[waits]] = True
        trace = trace.with_edges(trace.edges.where(~waits))
        return _without_questions(trace, asked) if self.unasked else trace


def _without_questions(trace: Trace, waiting: Mask) -> Trace:
    """The trace whose operators that only ask for a value, and waited for it, take no time."""
    asks = where_named(trace, lambda name: operator_of(name).work is Work.QUESTION)
    call = SelectedCalls(trace, asks & on_host(trace)).call
    gone = np.isin(call, call[waiting & (call >= 0)]) & (call >= 0)
    return without_gaps(with_own_ns(trace, np.where(gone, 0, trace.own_ns)), gone & on_host(trace))
