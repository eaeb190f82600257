"""Some rows of a trace, with the order that rows left out in between gave them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chakrakit.trace.edges import EdgeForm, EdgeKind, Edges
from chakrakit.trace.trace import Trace

Mask = NDArray[np.bool_]
_FS, _SS, _FF = (
    int(f) for f in (EdgeForm.FINISH_START, EdgeForm.START_START, EdgeForm.FINISH_FINISH)
)
Anchors = dict[tuple[int, bool], int]
"""(lane, whether an end or a start is meant) → the kept row there that comes last."""


def bridged(trace: Trace, kept: Mask) -> Trace:
    """The kept rows. Where one had to wait for another through rows left out, it still does.

    What the rows left out took is gone: a bridge is an edge without a lag. Of rows on one stream or
    thread the last is enough, since they wait for each other.
    """
    if kept.all():
        return trace
    part = trace.select(kept)
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
        self.lane = _lanes(trace)
        self.when = np.lexsort((trace.ids, trace.start_ns)).argsort()
        self.ends = np.lexsort((trace.ids, trace.end_ns)).argsort()
        self.starts: dict[int, Anchors] = {}
        self.finishes: dict[int, Anchors] = {}
        self.between = _between(trace, kept)
        edges = trace.edges
        inner = self.between[edges.src] | self.between[edges.dst]
        chosen = edges.where(
            inner & (kept | self.between)[edges.src] & (kept | self.between)[edges.dst]
        )
        order = np.argsort(_positions(trace)[chosen.dst], kind="stable")
        self.edges = list(zip(chosen.src[order].tolist(), chosen.dst[order].tolist(),
                              chosen.form[order].tolist(), strict=True))  # fmt: skip

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
            finish = form != _SS
            return {(int(self.lane[src]), finish): src}
        found = dict(self.starts.get(src, {}))
        if form != _SS:
            self._merge(found, self.finishes.get(src, {}))
        return found

    def _merge(self, into: Anchors, new: Anchors) -> None:
        for key, row in new.items():
            order = self.ends if key[1] else self.when
            if key not in into or order[into[key]] < order[row]:
                into[key] = row


def _between(trace: Trace, kept: Mask) -> Mask:
    """Rows left out that come after a kept row and before another."""
    rows = np.flatnonzero(kept)
    return np.asarray(trace.graph.descendants(rows) & trace.graph.ancestors(rows) & ~kept)


def _positions(trace: Trace) -> NDArray[np.int64]:
    """Each row's place in a topological order."""
    position = np.empty(len(trace), np.int64)
    position[trace.graph.topological_order()] = np.arange(len(trace))
    return position


def _lanes(trace: Trace) -> NDArray[np.int64]:
    """A number that rows which run one after another share; rows without a lane have their own."""
    host = trace.column("is_cpu_op", False).astype(np.bool_)
    lanes = -1 - np.arange(len(trace), dtype=np.int64)
    on_stream, on_thread = trace.has("stream") & ~host, trace.has("tid") & host
    lanes[on_stream] = 2 * np.abs(trace.column("stream", 0)[on_stream].astype(np.int64))
    lanes[on_thread] = 2 * np.abs(trace.column("tid", 0)[on_thread].astype(np.int64)) + 1
    return lanes
