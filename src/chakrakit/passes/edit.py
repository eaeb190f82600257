"""Edit: adds time to selected work, or scales it, on the device or on the host; reports times by class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from chakrakit.arrays import F64, I32, I64, Mask
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device import MOST_NS, measured_rows
from chakrakit.passes.base import (
    NodeSelection,
    Pass,
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

# --- calls: selected nodes with all that runs inside them ---------------------------------------


class SelectedCalls:
    """The calls that selected nodes stand for.

    A selected host node that is not inside another one is a call: to it belong the host nodes that run
    inside it and the device nodes they launch. A selected device node outside all calls is a call by
    itself. `call[row]` is the row of the call that a node belongs to, -1 for none.
    """

    def __init__(self, trace: Trace, selected: Mask) -> None:
        self.host = on_host(trace)
        self.call = _outermost(selected & self.host, trace.parent)
        launch = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
        self.call[launch.dst] = np.where(
            selected[launch.dst] & (self.call[launch.src] < 0), launch.dst, self.call[launch.src]
        )
        alone = selected & ~self.host & (self.call < 0)
        self.call[alone] = np.flatnonzero(alone)
        self._start = trace.start_ns

    def last(self, among: Mask) -> I64:
        """Returns for each call the row that begins last among the rows of a mask."""
        rows = np.flatnonzero(among & (self.call >= 0))
        rows = rows[np.lexsort((rows, self._start[rows], self.call[rows]))]
        final = np.ones(len(rows), np.bool_)
        final[:-1] = self.call[rows[1:]] != self.call[rows[:-1]]
        return rows[final]


def _outermost(selected: Mask, parent: I32) -> I64:
    """Returns for each row the outermost selected row that it is, or is inside of; -1 for none.

    Every round looks twice as far outwards.
    """
    rows = np.arange(len(selected))
    outermost = np.where(selected, rows, -1)
    up = np.where(parent >= 0, parent, rows).astype(np.int64)
    while (up != up[up]).any():
        outermost = np.where(outermost[up] >= 0, outermost[up], outermost)
        up = up[up]
    return np.where(outermost[up] >= 0, outermost[up], outermost)


# --- the report ---------------------------------------------------------------------------------


def by_class(before: TraceSet, after: TraceSet) -> list[dict[str, Any]]:
    """Compares the time of each class of work, largest first: nodes, nanoseconds of all ranks.

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
    totals: dict[str, tuple[int, int]] = {}
    for body, count in ranks.items():
        trace = traces.body_at(body)
        names, codes = coded(classes_of(trace))
        for number, name in enumerate(names):
            rows = np.flatnonzero(codes == number)
            nodes, nanos = totals.get(name, (0, 0))
            totals[name] = nodes + len(rows) * count, nanos + int(trace.own_ns[rows].sum()) * count
    return totals


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
        """Returns the edited traces; selecting nothing is an error."""
        traces = with_run_times(traces)
        rows_of_bodies = self.rows(traces, map(traces.body_at, range(traces.body_count)))
        self._refuse_untimed(traces, rows_of_bodies)
        return self._applied(traces, rows_of_bodies)

    def scaled_at(self, traces: TraceSet, rows_of_bodies: list[I64]) -> TraceSet:
        """The traces with these rows of their bodies scaled, whatever the fields select."""
        return self._applied(traces, [EditedRows(rows, rows[:0]) for rows in rows_of_bodies])

    def _applied(self, traces: TraceSet, rows_of_bodies: list[EditedRows]) -> TraceSet:
        bodies = [
            partial(self._edited, traces, i, edited_rows)
            for i, edited_rows in enumerate(rows_of_bodies)
        ]
        return with_bodies(traces, bodies)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The time of each class, before and after."""
        return {"classes": by_class(before, after)}

    @property
    def _selection(self) -> NodeSelection:
        """The fields that select calls; `classes` then narrows their nodes."""
        return NodeSelection(
            names=self.names, modules=self.modules, phases=self.phases, nodes=self.nodes
        )

    def rows(self, traces: TraceSet, bodies: Iterable[Trace]) -> list[EditedRows]:
        """The rows to edit in bodies of these traces, however much they are edited; none is an error."""
        replace(self._selection, classes=self.classes).refuse_absent(traces)
        chosen = [self._rows_of(body) for body in bodies]
        if not any(len(edited.rows) for edited in chosen):
            raise TraceError(f"{self}: no {self.on} node is selected; {_hint(traces, self.on)}")
        return chosen

    def _refuse_untimed(self, traces: TraceSet, chosen: list[EditedRows]) -> None:
        """Refuses work that has no time yet: a machine gives it one, in place of what an edit would write."""
        untimed = False
        for number, target in enumerate(chosen):
            trace = traces.body_at(number)
            if measured_rows(trace)[target.rows].any():
                return
            work = (trace.column("num_ops", 0) > 0) | (trace.column("tensor_size", 0) > 0)
            untimed |= bool(work[target.rows].any())
        if untimed:
            raise TraceError(
                f"{self}: what it selects has no times yet, since a machine times it; edit a simulated run "
                "(`chakra simulate W --machine M -o RUN`), or time the work first with the pass recost"
            )

    def _rows_of(self, trace: Trace) -> EditedRows:
        host = on_host(trace)
        selected = self._selection.rows(trace)
        on_side = host if self.on == "host" else ~host
        if self.classes:
            on_side = on_side & of_classes(trace, self.classes)
        calls = SelectedCalls(trace, selected)
        if not (self.names or self.modules or self.nodes):  # every node by itself, no calls
            rows = np.flatnonzero(selected & on_side)
            return EditedRows(rows, rows)
        return EditedRows(np.flatnonzero(on_side & (calls.call >= 0)), calls.last(on_side))

    def _edited(self, traces: TraceSet, number: int, target: EditedRows) -> Trace:
        trace = traces.body_at(number)
        edited = with_own_ns(trace, self.own_times(trace.own_ns, target))
        return edited if self.on == "device" else self._gaps(edited, target)

    def own_times(self, own_ns: I64, target: EditedRows) -> I64:
        """The own times after the edit of rows that had these."""
        edited = own_ns.copy()
        with np.errstate(over="ignore"):  # too much is the most there is
            scaled = np.minimum(own_ns[target.rows] * self.scale, float(MOST_NS))
        edited[target.rows] = np.rint(scaled).astype(np.int64)
        edited[target.last] += round(self.add_us * 1000)
        return edited

    def _gaps(self, trace: Trace, target: EditedRows) -> Trace:
        """Scales host gaps.

        The gap before a row belongs to its parent, at the top level to the row itself; but what a call
        does after the last row inside it, which is a part of the gap to the next row, belongs to the call.
        """
        edges = trace.edges
        selected = np.zeros(len(trace), np.bool_)
        selected[target.rows] = True
        holder = np.where(trace.parent >= 0, trace.parent, np.arange(len(trace)))
        own_share = np.where(selected[holder[edges.dst]], 1.0, _tail_shares(trace, selected))
        scaled = (own_share > 0) & np.isin(edges.kind, _HOST_EDGES) & (edges.lag > 0)
        if self.scale == 1 or not scaled.any():
            return trace
        longer = np.minimum(edges.lag * (1 + own_share * (self.scale - 1)), float(MOST_NS))
        lag = np.where(scaled, np.rint(longer).astype(np.int64), edges.lag)
        return trace.with_edges(replace(edges, lag=lag))


def _tail_shares(trace: Trace, selected: Mask) -> F64:
    """How much of each gap along a thread is the end of a selected call: what it does after its last row."""
    edges = trace.edges
    begin, end = trace.end_ns[edges.src], trace.start_ns[edges.dst]
    along = (edges.kind == EdgeKind.THREAD) & (end > begin)
    inside = np.minimum(_outer_end(trace, selected)[edges.src], end) - begin
    return np.where(along & (inside > 0), inside / np.maximum(end - begin, 1), 0.0)


def _outer_end(trace: Trace, selected: Mask) -> I64:
    """When the outermost selected call around each row ends; 0 where there is none."""
    end = np.where(selected, trace.end_ns, 0)
    outer = np.where(trace.parent >= 0, trace.parent, np.arange(len(trace)))
    while True:  # each round looks twice as far out
        end, further = np.maximum(end, end[outer]), outer[outer]
        if (further == outer).all():
            return end
        outer = further


@dataclass(frozen=True, eq=False)
class EditedRows:
    """The rows of a body to scale, and the last row of each call, which gets the added time."""

    rows: I64
    last: I64


def _hint(traces: TraceSet, on: str) -> str:
    classes = {str(c) for i in range(traces.body_count) for c in classes_of(traces.body_at(i))}
    other_side = "host" if on == "device" else "device"
    return f"the classes are {', '.join(sorted(classes))}; on={other_side} is the other side"
