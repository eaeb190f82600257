"""The order of communication in traces that never ran: no rank may wait for what comes after."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chakrakit.arrays import I32
from chakrakit.errors import TraceError
from chakrakit.trace.communication import Binding, match
from chakrakit.trace.model import Graph, Trace
from chakrakit.trace.sets import TraceSet

Levels = dict[int, I32]


def issue_levels(traces: Mapping[int, Trace]) -> Levels:
    """For every rank and row, how many nodes must come before it, over messages between ranks too.

    Ranks that issue a group's collectives by level agree on their order, and a receive comes after
    all that its sender must do first.
    """
    sizes = [len(t) for t in traces.values()]
    begin = dict(zip(traces, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    src = [t.edges.src + begin[r] for r, t in traces.items()]
    dst = [t.edges.dst + begin[r] for r, t in traces.items()]
    sent, received = _messages(traces, begin)
    graph = Graph(sum(sizes), np.concatenate([*src, sent]), np.concatenate([*dst, received]))
    circle = graph.find_cycle()
    if circle is not None and len(circle):
        raise TraceError(f"ranks wait for each other's messages in a circle of {len(circle)} nodes")
    level = graph.levels()
    return {r: level[begin[r] : begin[r] + len(t)] for r, t in traces.items()}


def _messages(traces: Mapping[int, Trace], begin: Mapping[int, int]) -> tuple[I32, I32]:
    """Rows of matched sends and receives in the joint numbering."""
    joint = TraceSet(list(traces.values()), {r: Binding(i) for i, r in enumerate(traces)})
    matching = match(joint.communication)
    own = np.repeat([begin[r] for r in joint.ranks], np.diff(matching.offset))
    rows = own + matching.column("row")
    sends = np.flatnonzero(matching.column("is_send") & (matching.partner >= 0))
    return rows[sends].astype(np.int32), rows[matching.partner[sends]].astype(np.int32)
