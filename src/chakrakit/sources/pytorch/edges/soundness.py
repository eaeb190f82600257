"""From gathered edges to a sound graph: one root, no pair twice in a list, no cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.sources.pytorch.timeline import Timeline
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Graph

# Of two edges between the same rows, the one that says more comes first.
_RANK = {
    EdgeKind.TENSOR: 0,
    EdgeKind.LAUNCH: 1,
    EdgeKind.EVENT: 2,
    EdgeKind.SYNC: 3,
    EdgeKind.STREAM: 4,
    EdgeKind.CALL: 5,
    EdgeKind.THREAD: 6,
    EdgeKind.AUTOGRAD: 7,
    EdgeKind.INFERRED: 8,
    EdgeKind.DATA: 9,
    EdgeKind.CTRL: 10,
}


@dataclass(frozen=True)
class SoundGraph:
    """Edges fit to be written, and what was left out to make them so."""

    edges: Edges
    merged: int
    circular: list[tuple[int, int, str]]


def make_sound(line: Timeline, edges: Edges) -> SoundGraph:
    """Give every row a cause, merge double edges, break circles."""
    rooted = Edges.concat([edges, _anchors(line, edges)])
    single, merged = _merge(rooted)
    acyclic, circular = _break_circles(len(line), single)
    return SoundGraph(acyclic, merged, circular)


def _anchors(line: Timeline, edges: Edges) -> Edges:
    """Edges from the first row to rows without a cause, which keep their measured starts."""
    has_cause = np.zeros(len(line), np.bool_)
    has_cause[edges.dst] = True
    free = np.flatnonzero(~has_cause)
    free = free[free != 0]
    lag = line.start[free] - line.start[0] if len(line) else free
    return Edges.of(
        np.zeros(len(free), np.int32), free, EdgeKind.INFERRED, EdgeForm.START_START, lag
    )


def _merge(edges: Edges) -> tuple[Edges, int]:
    """At most one edge of a pair in `data_deps` and one in `ctrl_deps`: doubles hang old readers."""
    rank = np.array([_RANK[k] for k in EdgeKind], np.int8)[edges.kind]
    order = np.lexsort((-edges.lag, rank, edges.src, edges.dst))
    src, dst = edges.src[order], edges.dst[order]
    fresh = np.r_[True, (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])] if len(src) else src == src
    place = np.arange(len(src))
    nth = place - np.maximum.accumulate(np.where(fresh, place, 0)) if len(src) else place
    ctrl = edges.ctrl[order].copy()
    second = np.flatnonzero(nth == 1)
    ctrl[second] = ~ctrl[second - 1]
    keep = nth < 2
    ordered = Edges(src, dst, edges.kind[order], edges.form[order], edges.lag[order], ctrl)
    return ordered.where(keep), int((~keep).sum())


def _break_circles(rows: int, edges: Edges) -> tuple[Edges, list[tuple[int, int, str]]]:
    """Drop, from each circle, the edge that says least about why; name what was dropped."""
    dropped: list[tuple[int, int, str]] = []
    while (circle := Graph(rows, edges.src, edges.dst).find_cycle()) is not None and len(circle):
        step = {(int(a), int(b)) for a, b in zip(circle, np.roll(circle, -1), strict=True)}
        step |= {(b, a) for a, b in step}
        hit = [
            i
            for i, pair in enumerate(zip(edges.src.tolist(), edges.dst.tolist(), strict=True))
            if pair in step
        ]
        worst = max(hit, key=lambda i: _RANK[EdgeKind(int(edges.kind[i]))])
        kind = EdgeKind(int(edges.kind[worst])).name.lower()
        dropped.append((int(edges.src[worst]), int(edges.dst[worst]), kind))
        keep = np.ones(len(edges), np.bool_)
        keep[worst] = False
        edges = edges.where(keep)
    return edges, dropped


def violations(line: Timeline, edges: Edges, tolerance: int) -> int:
    """Edges that the measured times contradict by more than the tolerance."""
    starts = edges.form == EdgeForm.START_START
    base = np.where(starts, line.start[edges.src], line.end[edges.src])
    ends = edges.form == EdgeForm.FINISH_FINISH
    constrained = np.where(ends, line.end[edges.dst], line.start[edges.dst])
    return int((base + edges.lag - constrained > tolerance).sum())
