"""The graph around a node: what it needs and what needs it, a few edges away, from left to right."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.model import EdgeKind, Graph
from chakrakit.views.app.node import brief
from chakrakit.views.app.shown_run import ShownRun

_COLUMN = 12
"""Most nodes at one distance: those nearest in time; the others are counted."""


def around(side: ShownRun, rank: int, row: int, hops: int) -> dict[str, Any]:
    """Nodes with their columns (0 for the node itself), the edges between them, how many are left out."""
    view = side.view(rank)
    column = {row: 0}
    hidden = 0
    for direction in (-1, 1):
        reached = np.array([row])
        for _ in range(hops):
            near = _neighbours(view.trace.graph, reached, direction)
            near = near[[int(n) not in column for n in near]]
            order = np.argsort(np.abs(view.start[near] - view.start[row]), kind="stable")
            hidden += max(len(near) - _COLUMN, 0)
            reached = near[order[:_COLUMN]]
            column |= dict.fromkeys(reached.tolist(), direction)
    edges = _between(side, rank, list(column))
    _spread(column, edges)
    nodes = [
        brief(side, rank, n) | {"column": c}
        for n, c in sorted(column.items(), key=lambda item: (item[1], view.start[item[0]], item[0]))
    ]
    return {"nodes": nodes, "edges": edges, "hidden": hidden}


def _spread(column: dict[int, int], edges: list[dict[str, Any]]) -> None:
    """Moves nodes outwards until every edge goes to the right; a circle of edges is left as it is."""
    for _ in column:
        moved = False
        for a, b in ((edge["from"], edge["to"]) for edge in edges):
            if column[b] > 0 and column[b] <= column[a]:
                column[b], moved = column[a] + 1, True
            elif column[a] < 0 and column[a] >= column[b]:
                column[a], moved = column[b] - 1, True
        if not moved:
            return


def _neighbours(graph: Graph, rows: I64, direction: int) -> I64:
    offsets, ends = (
        (graph.out_offsets, graph.out_targets)
        if direction > 0
        else (graph.in_offsets, graph.in_sources)
    )
    found = [ends[offsets[r] : offsets[r + 1]] for r in rows.tolist()]
    return np.unique(np.concatenate(found)).astype(np.int64) if found else np.zeros(0, np.int64)


def _between(side: ShownRun, rank: int, rows: list[int]) -> list[dict[str, Any]]:
    """Edges with both ends among the rows."""
    edges = side.view(rank).trace.edges
    bounds = np.searchsorted(edges.dst, [[r, r + 1] for r in rows])
    numbers = np.concatenate([np.arange(a, b) for a, b in bounds.tolist()]).astype(np.int64)
    numbers = numbers[np.isin(edges.src[numbers], rows)]
    return [
        {
            "from": int(edges.src[i]),
            "to": int(edges.dst[i]),
            "edge": EdgeKind(int(edges.kind[i])).name.lower(),
        }
        for i in numbers.tolist()
    ]
