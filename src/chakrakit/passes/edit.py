"""Edit: time added to, or scaled in, chosen work, on the device or on the host."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device import MOST_NS
from chakrakit.passes.base import (
    Pass,
    Selection,
    classes_of,
    coded,
    of_classes,
    with_bodies,
    with_own_ns,
    with_run_times,
)
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

# Calls: the outermost of chosen nodes, with all that runs inside them on host and device.


class Calls:
    """What chosen nodes stand for.

    A chosen host node that is not inside another one is a call: to it belong the host nodes that run
    inside it and the device nodes they launch. A chosen device node outside all calls is one by itself.
    `call[row]` is the row of the call a node belongs to, -1 for none.
    """

    def __init__(self, trace: Trace, chosen: Mask) -> None:
        self.host = on_host(trace)
        self.call = _outermost(chosen & self.host, trace.parent)
        launch = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
        self.call[launch.dst] = np.where(
            chosen[launch.dst] & (self.call[launch.src] < 0), launch.dst, self.call[launch.src]
        )
        alone = chosen & ~self.host & (self.call < 0)
        self.call[alone] = np.flatnonzero(alone)
        self._start = trace.start_ns

    def last(self, among: Mask) -> I64:
        """Of each call the row that begins last among some."""
        rows = np.flatnonzero(among & (self.call >= 0))
        rows = rows[np.lexsort((rows, self._start[rows], self.call[rows]))]
        final = np.ones(len(rows), np.bool_)
        final[:-1] = self.call[rows[1:]] != self.call[rows[:-1]]
        return rows[final]


def _outermost(chosen: Mask, parent: I32) -> I64:
    """For each row the outermost chosen row that it is, or is inside of; -1 for none.

    By doubling: every round looks twice as far outwards.
    """
    rows = np.arange(len(chosen))
    found = np.where(chosen, rows, -1)
    up = np.where(parent >= 0, parent, rows).astype(np.int64)
    while (up != up[up]).any():
        found = np.where(found[up] >= 0, found[up], found)
        up = up[up]
    return np.where(found[up] >= 0, found[up], found)


# By how much the time of each class of work changed between two sets of traces.


def by_class(before: TraceSet, after: TraceSet) -> list[dict[str, Any]]:
    """One row per class, largest first: nodes, and nanoseconds of all ranks before and after.

    Times are those of the nodes themselves, as if each ran alone; communication is left out, since
    only a network knows its times.
    """
    old, new = _totals(before), _totals(after)
    names = sorted({*old, *new} - {"communication", "none"})
    rows = [_row(name, old.get(name, (0, 0)), new.get(name, (0, 0))) for name in names]
    return sorted(rows, key=lambda row: -max(row["before_ns"], row["after_ns"]))


def _row(name: str, old: tuple[int, int], new: tuple[int, int]) -> dict[str, Any]:
    ratio = round(new[1] / old[1], 4) if old[1] else None
    return {"class": name, "nodes": new[0], "before_ns": old[1], "after_ns": new[1], "ratio": ratio}


def _totals(traces: TraceSet) -> dict[str, tuple[int, int]]:
    traces = with_run_times(traces)
    ranks = Counter(binding.body for binding in traces.bindings.values())
    found: dict[str, tuple[int, int]] = {}
    for body, count in ranks.items():
        trace = traces.body_at(body)
        names, codes = coded(classes_of(trace))
        for number, name in enumerate(names):
            rows = np.flatnonzero(codes == number)
            nodes, nanos = found.get(name, (0, 0))
            found[name] = nodes + len(rows) * count, nanos + int(trace.own_ns[rows].sum()) * count
    return found


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
    from chakrakit.passes.base import classes_of

    classes = {str(c) for i in range(traces.body_count) for c in classes_of(traces.body_at(i))}
    other = "host" if on == "device" else "device"
    return f"the classes are {', '.join(sorted(classes))}; on={other} is the other side"
