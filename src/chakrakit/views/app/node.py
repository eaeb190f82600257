"""All about one node: what it is, when it ran, what it waited for, who it is tied to."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.communication import Matched
from chakrakit.insight.rank import Cause, Causes, Kind, RankView
from chakrakit.trace.model import EdgeForm, EdgeKind, Graph, Node
from chakrakit.views.app.findings import Found
from chakrakit.views.app.shown_run import ShownRun

MOST = 200
"""Edges and peers beyond this are counted, not sent."""
_VALUE = 2_000
"""So are characters of a value."""
_CAUSES: dict[int, str] = {
    Cause.LANE: "the row before it on its lane",
    Cause.RECORDED: "what the run recorded",
    Cause.OWN: "its own work",
    Cause.INSIDE: "the last row inside it",
    Cause.ARRIVAL: "the last rank to arrive",
    Cause.MESSAGE: "the sender",
}


def brief(side: ShownRun, rank: int, row: int) -> dict[str, Any]:
    """Enough to name a row and to find it on the screen."""
    lines = side.lines(rank)
    view = side.view(rank)
    return {
        "rank": rank,
        "fold": side.alike(rank)[0],
        "row": row,
        "id": str(int(view.trace.ids[row])),
        "name": view.name(row),
        "start": int(view.start[row]) - side.origin if view.ran[row] else None,
        "length": int(view.duration[row]) if view.ran[row] else None,
        "kind": Kind(int(view.kind[row])).name.lower(),
        "track": int(lines.place[0][row]),
        "depth": int(lines.place[1][row]),
    }


def describe(side: ShownRun, rank: int, row: int) -> dict[str, Any]:
    """Everything the panel shows. What needs the analysis is there once that is done."""
    view = side.view(rank)
    node: Node = view.trace[row]
    parents, children = _edges(side, view, rank, row)
    lane, names = view.lanes
    found = side.findings.found
    return brief(side, rank, row) | {
        "type": node.type,
        "lane": names[lane[row]],
        "own": int(view.own[row]) if view.ran[row] else None,
        "operator": view.name(int(view.operator[row])) if view.operator[row] != row else "",
        "attributes": {k: _value(v) for k, v in node.attributes.items()},
        "fields": {
            c: _value(v)
            for c in (
                "inputs_values",
                "inputs_shapes",
                "inputs_types",
                "outputs_values",
                "outputs_shapes",
                "outputs_types",
            )
            if (v := node.get(c))
        },
        "parents": parents,
        "children": children,
        "analysis": side.findings.state,
        "waits": _waits(side, found, rank, row) if found else [],
        "slack": _slack(found, rank, row) if found else None,
        "peers": _peers(side, found, rank, row) if found else None,
    }


def _value(value: Any) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}… ({len(text):,} characters)"


def _edges(
    side: ShownRun, view: RankView, rank: int, row: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    edges, graph = view.trace.edges, view.trace.graph
    into = np.arange(*np.searchsorted(edges.dst, [row, row + 1]))
    out = graph.out_edges[graph.out_offsets[row] : graph.out_offsets[row + 1]]

    def told(numbers: Any, ends: Any) -> dict[str, Any]:
        shown = [
            brief(side, rank, int(ends[i]))
            | {
                "edge": EdgeKind(int(edges.kind[i])).name.lower(),
                "form": EdgeForm(int(edges.form[i])).name.lower().replace("_", " → "),
                "lag": int(edges.lag[i]),
            }
            for i in numbers[:MOST]
        ]
        return {"count": len(numbers), "shown": shown}

    return told(into, edges.src), told(out, edges.dst)


def _slack(found: Found, rank: int, row: int) -> int | None:
    known = found.rows.slack.get(found.stand_in(rank))
    return None if known is None else int(known[row])


def _waits(side: ShownRun, found: Found, rank: int, row: int) -> list[dict[str, Any]]:
    """What its start and its end waited for last."""
    causes: Causes | None = found.rows.causes.get(found.stand_in(rank))
    if causes is None:
        return []
    out = []
    for event in ("start", "end"):
        code, other, peer = (
            int(getattr(causes, f"{event}{part}")[row]) for part in ("", "_row", "_rank")
        )
        if code == Cause.NOTHING:
            continue
        what = _CAUSES.get(code) or f"{_article(EdgeKind(code).name.lower())} edge"
        told: dict[str, Any] = {"event": event, "what": what, "node": None}
        # Of a rank that another stands for, who came last is known among its own peers only.
        if other >= 0 and (peer < 0 or found.stand_in(rank) == rank):
            told["node"] = brief(side, rank if peer < 0 else peer, other)
        out.append(told)
    return out


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _peers(side: ShownRun, found: Found, rank: int, row: int) -> dict[str, Any] | None:
    """The calls of other ranks that belong to this one's."""
    matched = found.rows.matched
    met = matched.meeting(rank, row)
    if met is None:
        return None
    others = np.flatnonzero(met.ranks != rank)
    ordered = others[np.argsort(matched.start[met.calls[others]], kind="stable")]
    collective = bool(matched.collective[met.call])
    last = matched.last_rank(met.call, met.group) if collective else rank
    return {
        "group": matched.group_names[met.group] if collective else "",
        "collective": collective,
        "members": int(matched.members[met.call]),
        "wait": int(matched.wait[met.call]),
        "transfer": int(matched.transfer[met.call]),
        "last": last if last != rank else None,
        "count": len(ordered),
        "shown": [
            _call(side, matched, int(met.ranks[i]), int(met.calls[i])) for i in ordered[:MOST]
        ],
    }


def _call(side: ShownRun, matched: Matched, rank: int, i: int) -> dict[str, Any]:
    """A call of another rank, which need not be read for this."""
    start, end = int(matched.start[i]), int(matched.end[i])
    return {
        "rank": rank,
        "row": int(matched.row[i]),
        "start": start - side.origin,
        "length": end - start,
    }


# The graph around a node: what it needs and what needs it, a few edges away, from left to right.


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
