"""Some rows of a trace, with the order that rows left out in between gave them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Graph, Trace
from chakrakit.trace.placement import NO_LANE, implied_order, issue_order, lane_of

_FS, _SS, _FF = (
    int(f) for f in (EdgeForm.FINISH_START, EdgeForm.START_START, EdgeForm.FINISH_FINISH)
)
Anchors = dict[tuple[int, bool], int]
"""(lane, whether an end or a start is meant) → the kept row there that comes last."""


def with_bridging_edges(trace: Trace, kept: Mask) -> Trace:
    """The kept rows. Where one had to wait for another through rows left out, it still does.

    What the rows left out took is gone: a bridge is an edge without a lag. Of rows on one stream or
    thread the last is enough, since they wait for each other.
    """
    if kept.all():
        return trace
    part = trace.with_nesting().select(kept)
    found = list(_Bridges(trace, kept).found())
    if not found:
        return part
    place = np.cumsum(kept) - 1
    src, dst, form = np.array(found, np.int64).T
    new = Edges.of(place[src], place[dst], EdgeKind.INFERRED, form.astype(np.int8))
    return part.with_edges(Edges.concat([part.edges, new]))


class _Bridges:
    """Walks the rows left out in an order in which each comes after all it waits for."""

    def __init__(self, trace: Trace, kept: Mask) -> None:
        self.kept = kept
        self.lane, self.order = _lanes(trace), issue_order(trace)
        self.calls = _callers(trace)
        self.starts: dict[int, Anchors] = {}
        self.finishes: dict[int, Anchors] = {}
        edges, graph = self._constraints(trace)
        rows = np.flatnonzero(kept)
        self.between = graph.descendants(rows) & graph.ancestors(rows) & ~kept
        inside = kept | self.between
        inner = self.between[edges.src] | self.between[edges.dst]
        chosen = edges.where(inner & inside[edges.src] & inside[edges.dst])
        place = np.empty(len(trace), np.int64)
        place[graph.topological_order()] = np.arange(len(trace))
        order = np.argsort(place[chosen.dst], kind="stable")
        self.edges = list(
            zip(
                chosen.src[order].tolist(),
                chosen.dst[order].tolist(),
                chosen.form[order].tolist(),
                strict=True,
            )
        )

    def _constraints(self, trace: Trace) -> tuple[Edges, Graph]:
        """The edges, and the order of streams and threads where no edges say it."""
        lanes = Edges.of(*implied_order(trace), EdgeKind.STREAM)
        both = Edges.concat([trace.edges, lanes])
        graph = Graph(len(trace), both.src, both.dst)
        # Lanes against the edges cannot run; then the edges alone are what is known.
        return (both, graph) if graph.is_acyclic else (trace.edges, trace.graph)

    def found(self) -> Iterator[tuple[int, int, int]]:
        """(source, target, form) of every bridge."""
        into: dict[tuple[int, int], Anchors] = {}
        for src, dst, form in self.edges:
            anchors = self._from(src, form)
            if self.between[dst]:
                bounds = self.finishes if form == _FF else self.starts
                self._merge(bounds.setdefault(dst, {}), anchors)
            elif self.between[src]:
                self._merge(into.setdefault((dst, form == _FF), {}), anchors)
        for (dst, ends), anchors in into.items():
            for (_, finish), src in anchors.items():
                if finish or not ends:  # nothing says 'ends after another starts'
                    yield src, dst, _FF if ends else _FS if finish else _SS

    def _from(self, src: int, form: int) -> Anchors:
        """What is over before the target of an edge may go on."""
        if self.kept[src]:
            # A caller's end says little: what it calls is over later. Its start is in its thread's order.
            finish = form != _SS and not self.calls[src]
            return {(int(self.lane[src]), finish): src}
        found = dict(self.starts.get(src, {}))
        if form != _SS:
            self._merge(found, self.finishes.get(src, {}))
        return found

    def _merge(self, into: Anchors, new: Anchors) -> None:
        for key, row in new.items():
            if key not in into or self.order[into[key]] < self.order[row]:
                into[key] = row


def _callers(trace: Trace) -> Mask:
    """Host rows inside which the thread goes on: their only edge along it leaves at their start."""
    edges = trace.edges.where(np.isin(trace.edges.kind, [int(EdgeKind.THREAD), int(EdgeKind.CALL)]))
    found = np.zeros(len(trace), np.bool_)
    found[edges.src] = True
    found[edges.src[edges.form == EdgeForm.FINISH_START]] = False
    return found


def _lanes(trace: Trace) -> I64:
    """A number that rows which run one after another share; below 0 for rows that have no lane."""
    lane = lane_of(trace)
    return np.where(lane == NO_LANE, -1 - np.arange(len(trace)), lane)
