"""The graph around a node: what it needs and what needs it, a few edges away, in columns by distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.insight.rank_view import I64
from chakrakit.trace.edges import EdgeKind
from chakrakit.trace.graph import Graph
from chakrakit.views.app.node import brief
from chakrakit.views.app.side import Side

_COLUMN = 12
"""Most nodes at one distance: those nearest in time; the others are counted."""


def around(side: Side, rank: int, row: int, hops: int) -> dict[str, Any]:
    """Nodes with their column (hops before: negative) and the edges between them."""
    view = side.view(rank)
    graph = view.trace.graph
    column = {row: 0}
    hidden: dict[int, int] = {}
    for direction in (-1, 1):
        edge = np.array([row])
        for hop in range(1, hops + 1):
            near = _neighbours(graph, edge, direction)
            near = near[[int(n) not in column for n in near]]
            order = np.argsort(np.abs(view.start[near] - view.start[row]), kind="stable")
            if len(near) > _COLUMN:
                hidden[direction * hop] = len(near) - _COLUMN
            edge = near[order[:_COLUMN]]
            column |= dict.fromkeys(edge.tolist(), direction * hop)
    nodes = [
        brief(side, rank, n) | {"column": c}
        for n, c in sorted(column.items(), key=lambda item: (item[1], view.start[item[0]], item[0]))
    ]
    return {"nodes": nodes, "edges": _between(side, rank, list(column)), "hidden": hidden}


def _neighbours(graph: Graph, rows: I64, direction: int) -> I64:
    offsets, ends = (
        (graph.out_offsets, graph.out_targets)
        if direction > 0
        else (graph.in_offsets, graph.in_sources)
    )
    found = [ends[offsets[r] : offsets[r + 1]] for r in rows.tolist()]
    return np.unique(np.concatenate(found)).astype(np.int64) if found else np.zeros(0, np.int64)


def _between(side: Side, rank: int, rows: list[int]) -> list[dict[str, Any]]:
    """Edges with both ends among the rows."""
    edges = side.view(rank).trace.edges
    bounds = np.searchsorted(edges.dst, [[r, r + 1] for r in rows])
    numbers = np.concatenate([np.arange(a, b) for a, b in bounds.tolist()]).astype(np.int64)
    numbers = numbers[np.isin(edges.src[numbers], rows)]
    return [
        {"from": int(edges.src[i]), "to": int(edges.dst[i]),
         "edge": EdgeKind(int(edges.kind[i])).name.lower()}
        for i in numbers.tolist()
    ]  # fmt: skip
