"""Compact: replaces host nodes that only pass time on by the lag of one edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.passes.base import Pass, narrow
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace, nearest_kept
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

_USER_SCOPE = 7  # PyTorch's RecordScope::USER_SCOPE, which annotations have


@dataclass(frozen=True)
class Compact(Pass):
    """Merge host nodes that carry no edge of their own.

    A node goes if it runs on the host, is plain compute, and has one predecessor and one successor
    on its thread and no other edge. The time between its neighbours, its own included, becomes the
    lag of the edge that joins them: every remaining node starts when it did before, whatever else
    is edited, and what could be reached still can. Annotations stay unless told otherwise, so that
    steps and phases can still be found.
    """

    name = "compact"
    preserves = (
        "when each remaining node starts, alone and under any edit of others; what can be reached "
        "from what; the times of a run"
    )
    keep_annotations: bool = True

    def apply(self, traces: TraceSet) -> TraceSet:
        """The compacted traces; a body without such nodes comes back as it is."""
        return narrow(traces, self.compacted)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many times smaller the bodies became."""
        nodes = [sum(len(t.body_at(i)) for i in range(t.body_count)) for t in (before, after)]
        return {"factor": round(nodes[0] / max(nodes[1], 1), 3)}

    def compacted(self, trace: Trace) -> Trace:
        """Returns one body without its mergeable nodes."""
        chain = _Chain(trace)
        goes = chain.mergeable & self._may_go(trace)
        if not goes.any():
            return trace
        edges = chain.without(goes)
        remaining = np.flatnonzero(~goes)
        place = np.full(len(trace), -1, np.int32)
        place[remaining] = np.arange(len(remaining), dtype=np.int32)
        moved = Edges(
            place[edges.src], place[edges.dst], edges.kind, edges.form, edges.lag, edges.ctrl
        )
        return trace.with_nesting().select(remaining).with_edges(moved)

    def _may_go(self, trace: Trace) -> Mask:
        host = on_host(trace) & trace.is_type(NodeType.COMP_NODE)
        if self.keep_annotations:
            host &= trace.column("scope", 0) != _USER_SCOPE
        return host


class _Chain:
    """Thread and call edges as one predecessor and one successor per row."""

    def __init__(self, trace: Trace) -> None:
        self.edges = edges = trace.edges
        self.parent, self.thread = trace.parent, trace.column("tid", 0)
        rows = len(trace)
        self.time = trace.column("own_ns", -1)
        self.time = np.where(self.time >= 0, self.time, trace.duration_ns)
        linking = np.isin(edges.kind, [EdgeKind.THREAD, EdgeKind.CALL])
        linking &= edges.form != EdgeForm.FINISH_FINISH
        into, out = np.bincount(edges.dst, minlength=rows), np.bincount(edges.src, minlength=rows)
        link = np.flatnonzero(linking)
        self.entry = np.full(rows, -1, np.int64)
        self.entry[edges.dst[link]] = link
        leave = np.full(rows, -1, np.int64)
        leave[edges.src[link]] = link
        self.leaves_at_end = np.zeros(rows, np.bool_)
        has = leave >= 0
        self.leaves_at_end[has] = edges.form[leave[has]] == EdgeForm.FINISH_START
        self.mergeable = (into == 1) & (out == 1) & (self.entry >= 0) & has

    def without(self, goes: Mask) -> Edges:
        """Returns all edges, with each chain through removed rows replaced by one edge."""
        edges = self.edges
        lag, root = self._collapsed(goes)
        after = np.flatnonzero(goes[edges.src] & ~goes[edges.dst])
        first = root[edges.src[after]]
        joined = self.entry[first]
        src, dst, form = edges.src[joined], edges.dst[after], edges.form[joined]
        # On one thread a call is what goes from a row to one inside of it.
        inside = nearest_kept(self.parent, ~goes)[dst] == src
        calls = inside | (self.thread[src] != self.thread[dst])
        calls &= form == EdgeForm.START_START
        kinds = np.where(calls, EdgeKind.CALL, EdgeKind.THREAD).astype(np.int8)
        new = Edges.of(src, dst, kinds, form, lag[edges.src[after]] + edges.lag[after])
        return Edges.concat([edges.where(~goes[edges.src] & ~goes[edges.dst]), new])

    def _collapsed(self, goes: Mask) -> tuple[I64, I64]:
        """Returns for each removed row the time since its chain's start, and the chain's first row.

        Every pass doubles how far back a row looks, so long chains take few passes.
        """
        nobody = len(goes)
        rows = np.flatnonzero(goes)
        entry = self.entry[rows]
        before = self.edges.src[entry]
        lag = np.zeros(nobody + 1, np.int64)
        lag[rows] = self.edges.lag[entry] + np.where(self.leaves_at_end[rows], self.time[rows], 0)
        back = np.full(nobody + 1, nobody, np.int64)
        back[rows] = np.where(goes[before], before, nobody)
        first = np.arange(nobody + 1)
        while (back[rows] != nobody).any():
            lag[rows] += lag[back[rows]]
            first[rows] = np.where(back[rows] != nobody, first[back[rows]], first[rows])
            back[rows] = back[back[rows]]
        return lag, first
