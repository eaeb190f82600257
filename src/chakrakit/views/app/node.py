"""Everything about one node: what it is, when it ran, what it waited for, and what is around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.communication import Matched
from chakrakit.insight.rank import Cause, Causes, RankView, RowKind
from chakrakit.trace.model import EdgeForm, EdgeKind, Graph, Node
from chakrakit.views.app.findings import AnalyzedRun
from chakrakit.views.app.shown_run import ShownRun

MOST = 200
"""Edges and peers that an answer lists; all are counted. A list that long is searched, not read."""
_VALUE = 2_000
"""Characters of a value that an answer shows: about a screen of text."""
_CAUSES: dict[int, str] = {
    Cause.LANE: "the row before it on its lane",
    Cause.RECORDED: "what the run recorded",
    Cause.OWN: "its own work",
    Cause.INSIDE: "the last row inside it",
    Cause.ARRIVAL: "the last rank to arrive",
    Cause.MESSAGE: "the sender",
}


def brief(side: ShownRun, rank: int, row: int) -> dict[str, Any]:
    """The name, times and place on the screen of a row."""
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
        "kind": RowKind(int(view.kind[row])).name.lower(),
        "track": int(lines.place[0][row]),
        "depth": int(lines.place[1][row]),
    }


def describe(side: ShownRun, rank: int, row: int) -> dict[str, Any]:
    """Everything that the panel shows of a row; parts that need the analysis are empty until it is done."""
    view = side.view(rank)
    node: Node = view.trace[row]
    parents, children = _edges(side, view, rank, row)
    lane, names = view.lanes
    analyzed = side.findings.analyzed
    return brief(side, rank, row) | {
        "type": node.type,
        "host": bool(view.trace.on_host[row]),
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
        "waits": _waits(side, analyzed, rank, row) if analyzed else [],
        "slack": _slack(analyzed, rank, row) if analyzed else None,
        "peers": _peers(side, analyzed, rank, row) if analyzed else None,
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

    def described_edges(numbers: Any, ends: Any) -> dict[str, Any]:
        neighbours = [
            brief(side, rank, int(ends[i]))
            | {
                "edge": EdgeKind(int(edges.kind[i])).name.lower(),
                "form": EdgeForm(int(edges.form[i])).name.lower().replace("_", " → "),
                "lag": int(edges.lag[i]),
            }
            for i in numbers[:MOST]
        ]
        return {"count": len(numbers), "shown": neighbours}

    return described_edges(into, edges.src), described_edges(out, edges.dst)


def _slack(analyzed: AnalyzedRun, rank: int, row: int) -> int | None:
    rank_slack = analyzed.rows.slack.get(analyzed.stand_in(rank))
    return None if rank_slack is None else int(rank_slack[row])


def _waits(side: ShownRun, analyzed: AnalyzedRun, rank: int, row: int) -> list[dict[str, Any]]:
    """What the start and the end of a row waited for last."""
    causes: Causes | None = analyzed.rows.causes.get(analyzed.stand_in(rank))
    if causes is None:
        return []
    out = []
    for event in ("start", "end"):
        code, cause_row, peer = (
            int(getattr(causes, f"{event}{part}")[row]) for part in ("", "_row", "_rank")
        )
        if code == Cause.NOTHING:
            continue
        cause = _CAUSES.get(code) or f"{_article(EdgeKind(code).name.lower())} edge"
        wait: dict[str, Any] = {"event": event, "what": cause, "node": None}
        # If another rank stands for this one, causes name that rank's peers, not this one's.
        if cause_row >= 0 and (peer < 0 or analyzed.stand_in(rank) == rank):
            wait["node"] = brief(side, rank if peer < 0 else peer, cause_row)
        out.append(wait)
    return out


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _peers(side: ShownRun, analyzed: AnalyzedRun, rank: int, row: int) -> dict[str, Any] | None:
    """The calls of other ranks that meet in this call; None for a row that is not a call."""
    matched = analyzed.rows.matched
    meeting = matched.meeting(rank, row)
    if meeting is None:
        return None
    peers = np.flatnonzero(meeting.ranks != rank)
    ordered = peers[np.argsort(matched.start[meeting.calls[peers]], kind="stable")]
    collective = bool(matched.collective[meeting.call])
    last = matched.last_rank(meeting.call, meeting.group) if collective else rank
    return {
        "group": matched.group_names[meeting.group] if collective else "",
        "collective": collective,
        "members": int(matched.members[meeting.call]),
        "wait": int(matched.wait[meeting.call]),
        "transfer": int(matched.transfer[meeting.call]),
        "last": last if last != rank else None,
        "count": len(ordered),
        "shown": [
            _call(side, matched, int(meeting.ranks[i]), int(meeting.calls[i]))
            for i in ordered[:MOST]
        ],
    }


def _call(side: ShownRun, matched: Matched, rank: int, i: int) -> dict[str, Any]:
    """A call of another rank; that rank is not read."""
    start, end = int(matched.start[i]), int(matched.end[i])
    return {
        "rank": rank,
        "row": int(matched.row[i]),
        "start": start - side.origin,
        "length": end - start,
    }


# --- the graph around a node: what it needs and what needs it, from left to right -------------------

_COLUMN = 12
"""Nodes in a column, the nearest in time; the others are counted. Twelve fit below each other."""


def around(side: ShownRun, rank: int, row: int, hops: int) -> dict[str, Any]:
    """The nodes up to `hops` edges away with their columns (0: the node itself), and their edges."""
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
    """Moves nodes outwards until every edge points to the right; cycles of edges stay as they are."""
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
    ends_of_rows = [ends[offsets[r] : offsets[r + 1]] for r in rows.tolist()]
    return (
        np.unique(np.concatenate(ends_of_rows)).astype(np.int64)
        if ends_of_rows
        else np.zeros(0, np.int64)
    )


def _between(side: ShownRun, rank: int, rows: list[int]) -> list[dict[str, Any]]:
    """The edges between these rows."""
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
