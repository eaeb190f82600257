"""Edit: time added to, or scaled in, chosen work, on the device or on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device import MOST_NS
from chakrakit.passes.base import Pass, with_bodies
from chakrakit.passes.nodes import Selection, of_classes, with_own_ns, with_run_times
from chakrakit.passes.recost.calls import Calls
from chakrakit.passes.recost.changes import by_class
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

_HOST_EDGES = [int(k) for k in (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)]


@dataclass(frozen=True)
class Edit(Pass):
    """Add time to chosen work, or scale it, on the device or on the host.

    `names` and `modules` are regular expressions that a text begins to match, `nodes` are ids. A
    chosen operator stands for all that runs inside it and all it launches: `scale` multiplies the
    time of all its device (or host) nodes, `add_us` is added once, to the last of them. A chosen
    kernel stands for itself. `classes` and `phases` narrow it down, or alone mean every such node.
    """

    name = "edit"
    preserves = (
        "nodes, edges, sizes and groups; every time but those chosen; host gaps but those scaled"
    )
    scale: float = 1.0
    add_us: float = 0.0
    on: Literal["device", "host"] = "device"
    names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise ConfigError(f"scale={self.scale}; it should be 0 or more, and finite")
        if not abs(self.add_us) * 1000 <= MOST_NS:
            raise ConfigError(f"add_us={self.add_us}; it should be at most {MOST_NS // 1000:,}")
        if self.scale == 1 and self.add_us == 0:
            raise ConfigError("edit changes nothing; give scale=FACTOR or add_us=MICROSECONDS")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The edited traces. Nothing to edit is an error."""
        traces = with_run_times(traces)
        replace(self._meant, classes=self.classes).refuse_absent(traces)
        chosen = [self._chosen(traces.body_at(i)) for i in range(traces.body_count)]
        if not any(len(one.rows) for one in chosen):
            raise TraceError(f"{self}: no {self.on} node is meant; {_hint(traces, self.on)}")
        bodies = [partial(self._edited, traces, i, one) for i, one in enumerate(chosen)]
        return with_bodies(traces, bodies)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The time of each class, before and after."""
        return {"classes": by_class(before, after)}

    @property
    def _meant(self) -> Selection:
        """By all that says which calls are meant; a class says which of their nodes."""
        return Selection(
            names=self.names, modules=self.modules, phases=self.phases, nodes=self.nodes
        )

    def _chosen(self, trace: Trace) -> _Chosen:
        host = on_host(trace)
        meant = self._meant.rows(trace)
        there = host if self.on == "host" else ~host
        if self.classes:
            there = there & of_classes(trace, self.classes)
        calls = Calls(trace, meant)
        if not (self.names or self.modules or self.nodes):  # every node by itself, no calls
            rows = np.flatnonzero(meant & there)
            return _Chosen(rows, rows)
        return _Chosen(np.flatnonzero(there & (calls.call >= 0)), calls.last(there))

    def _edited(self, traces: TraceSet, number: int, chosen: _Chosen) -> Trace:
        trace = traces.body_at(number)
        own = trace.own_ns.copy()
        scaled = np.minimum(own[chosen.rows] * self.scale, float(MOST_NS))
        own[chosen.rows] = np.rint(scaled).astype(np.int64)
        own[chosen.last] += round(self.add_us * 1000)
        edited = with_own_ns(trace, own)
        return edited if self.on == "device" else self._gaps(edited, chosen)

    def _gaps(self, trace: Trace, chosen: _Chosen) -> Trace:
        """The host's gap before a row is time of the row around it; at the top, of the row itself."""
        edges = trace.edges
        meant = np.zeros(len(trace), np.bool_)
        meant[chosen.rows] = True
        holder = np.where(trace.parent >= 0, trace.parent, np.arange(len(trace)))
        scaled = meant[holder[edges.dst]] & np.isin(edges.kind, _HOST_EDGES) & (edges.lag > 0)
        if self.scale == 1 or not scaled.any():
            return trace
        longer = np.minimum(edges.lag * self.scale, float(MOST_NS))
        lag = np.where(scaled, np.rint(longer).astype(np.int64), edges.lag)
        return trace.with_edges(replace(edges, lag=lag))


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Of a body: the rows to scale, and the last of each call."""

    rows: I64
    last: I64


def _hint(traces: TraceSet, on: str) -> str:
    from chakrakit.passes.nodes import classes_of

    classes = {str(c) for i in range(traces.body_count) for c in classes_of(traces.body_at(i))}
    other = "host" if on == "device" else "device"
    return f"the classes are {', '.join(sorted(classes))}; on={other} is the other side"
