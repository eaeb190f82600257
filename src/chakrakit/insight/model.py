"""A run as one graph that can be scheduled again: all ranks, their collectives and messages coupled.

A collective ends on every rank a fixed transfer time after the last rank has come; a receive its
transfer time after both ends have begun. Everything else is the traces' own edges and, where they do
not say it, the order of serial lanes. With unchanged durations the schedule gives back the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chakrakit.insight.causes import lane_pairs
from chakrakit.insight.matching import Matched, RankCalls, calls_of, match_calls
from chakrakit.insight.rank_view import I64, Mask, RankView, rank_views
from chakrakit.trace.edges import EdgeForm, EdgeKind, Edges
from chakrakit.trace.run import Run
from chakrakit.trace.schedule import Schedule, schedule
from chakrakit.trace.schema import NodeType

_HOST_EDGES = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)


@dataclass(eq=False)
class RankGraph:
    """One rank's rows and constraints."""

    rank: int
    own: I64
    start: I64
    end: I64
    kind: NDArray[np.int8]
    edges: Edges
    parent: NDArray[np.int32]
    free: Mask
    """Rows that nothing holds back: they start when they did."""


def graph_of(view: RankView) -> RankGraph:
    """The part of one rank."""
    edges = view.trace.edges
    edges = edges.where(view.ran[edges.src] & view.ran[edges.dst])
    if not (edges.kind == EdgeKind.STREAM).any():
        edges = Edges.concat([edges, _lane_edges(view)])
    held = np.zeros(len(view), np.bool_)
    held[edges.dst[edges.form != EdgeForm.FINISH_FINISH]] = True
    own = np.where(view.ran, view.own, 0)
    return RankGraph(view.rank, own, view.start, view.end, view.kind, edges, view.parent,
                     view.ran & ~held)  # fmt: skip


def _lane_edges(view: RankView) -> Edges:
    """The order on lanes whose rows never overlap: streams, and engines that do one thing at a time."""
    before, after = lane_pairs(view)
    return Edges.of(before, after, EdgeKind.STREAM)


class Model:
    """The whole run as rows 0…n-1: the ranks' rows one after another, then one row a coupling.

    `offset[rank]` is where a rank's rows begin. `own` and `edges` are what a change may scale:
    `own` the time of each row, `transfer[row]` the edge that carries a coupled call's transfer (-1
    for others). `base` is the schedule with nothing changed. `stands_for` maps ranks without a part
    of their own to one with the same program and times: what they do is what that one does.
    """

    def __init__(
        self, parts: list[RankGraph], matched: Matched, stands_for: Mapping[int, int] | None = None
    ) -> None:
        sizes = [len(p.own) for p in parts]
        self.ranks = [p.rank for p in parts]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self.offset = dict(zip(self.ranks, starts.tolist(), strict=False))
        self.rows = int(starts[-1])
        self.begin = min(
            (int(p.start[p.end >= 0].min()) for p in parts if (p.end >= 0).any()), default=0
        )
        self.kind = np.concatenate([p.kind for p in parts])
        own_row = [
            np.where(p.parent >= 0, p.parent, np.arange(len(p.parent))) + self.offset[p.rank]
            for p in parts
        ]
        self._holder = np.concatenate(own_row)
        self._couple(parts, matched, stands_for or {})

    def _couple(
        self, parts: list[RankGraph], matched: Matched, stands_for: Mapping[int, int]
    ) -> None:
        at = self._places(matched, stands_for)
        present = np.isin(matched.rank, self.ranks)
        own = np.concatenate([p.own for p in parts])
        inner = [_moved(p.edges, self.offset[p.rank]) for p in parts]
        couplings, extra, transfer_of = _couplings(matched, at, self.rows, present)
        self.n = self.rows + couplings
        coupled = transfer_of >= 0
        own[at[coupled]] = 0
        receives = coupled & ~matched.collective
        own[at[receives]] = matched.transfer[receives]
        self.own = np.concatenate([own, np.zeros(couplings, np.int64)])
        edges = Edges.concat([*inner, extra])
        self.transfer = np.full(self.n, -1, np.int64)
        self.transfer[at[coupled]] = transfer_of[coupled] + len(edges) - len(extra)
        self.edges = edges
        release = np.concatenate([np.where(p.free, p.start - self.begin, 0) for p in parts])
        self.release = np.concatenate([np.maximum(release, 0), np.zeros(couplings, np.int64)])

    def _places(self, matched: Matched, stands_for: Mapping[int, int]) -> I64:
        """The row of each call, or of the call that stands for it."""
        ranks, which = np.unique(matched.rank, return_inverse=True)
        first = [self.offset[stands_for.get(r, r)] for r in ranks.tolist()]
        return np.array(first or [0], np.int64)[which] + matched.row

    def schedule(self, own: I64 | None = None, edges: Edges | None = None) -> Schedule:
        """All rows again, with other times."""
        return schedule(
            self.n, self.edges if edges is None else edges, self.own if own is None else own,
            release=self.release,
        )  # fmt: skip

    @cached_property
    def base(self) -> Schedule:
        """With nothing changed."""
        return self.schedule()

    @property
    def makespan(self) -> int:
        """How long the run takes as scheduled."""
        return int(self.base.end.max()) if self.n else 0

    def scaled(self, factors: NDArray[np.float64]) -> tuple[I64, Edges]:
        """Times and edges with every row's own time, transfer and host gap before it multiplied."""
        own = np.rint(self.own * factors[: self.n]).astype(np.int64)
        changed = np.flatnonzero((self.transfer >= 0) & (factors != 1.0))
        lag = self.edges.lag.copy()
        numbers = self.transfer[changed]
        lag[numbers] = np.rint(lag[numbers] * factors[changed]).astype(np.int64)
        lag = self._scale_gaps(lag, factors)
        return own, replace(self.edges, lag=lag)

    def _scale_gaps(self, lag: I64, factors: NDArray[np.float64]) -> I64:
        """The host's gap before a row is time of the row around it; at the top, of the row itself."""
        edges = np.flatnonzero(np.isin(self.edges.kind, _HOST_EDGES) & (lag > 0))
        by = factors[self._holder[self.edges.dst[edges]]]
        edges, by = edges[by != 1.0], by[by != 1.0]
        lag[edges] = np.rint(lag[edges] * by).astype(np.int64)
        return lag

    @cached_property
    def slack(self) -> I64:
        """How much later each row could end with the run taking no longer.

        The longest way from a row to the run's end is found by scheduling the graph backwards:
        starts and ends change places, and with them the forms of edges.
        """
        turned = np.array(
            [EdgeForm.FINISH_START, EdgeForm.FINISH_FINISH, EdgeForm.START_START], np.int8
        )
        back = Edges(self.edges.dst, self.edges.src, self.edges.kind, turned[self.edges.form],
                     self.edges.lag, self.edges.ctrl)  # fmt: skip
        after = schedule(self.n, back, self.own).start
        return np.asarray(self.makespan - after - self.base.end)


def _moved(edges: Edges, by: int) -> Edges:
    shift = np.int32(by)
    return replace(edges, src=edges.src + shift, dst=edges.dst + shift)


def _couplings(matched: Matched, at: I64, first: int, present: Mask) -> tuple[int, Edges, I64]:
    """Extra rows, the edges through them, and the number of the edge that carries each transfer.

    A row stands for 'all have come': every member's start leads to it, and it to the end of every
    member that has rows of its own.
    """
    none = np.full(len(matched), -1, np.int64)
    joins = matched.collective & (matched.end >= matched.arrival)
    joins &= np.isin(matched.instance, matched.instance[present])
    receives = (matched.type == NodeType.COMM_RECV_NODE) & (matched.partner >= 0)
    partner = np.maximum(matched.partner, 0)
    receives &= (matched.end >= matched.start[partner]) & present if len(matched) else receives
    calls, messages = np.flatnonzero(joins), np.flatnonzero(receives)
    numbers, which = np.unique(matched.instance[calls], return_inverse=True)
    meeting = first + which.reshape(-1)
    posted = first + len(numbers) + np.arange(len(messages))
    mine = present[calls]
    lag = np.concatenate([(matched.end - matched.arrival)[calls[mine]], matched.transfer[messages]])
    come = Edges.of(np.concatenate([at[calls], at[matched.partner[messages]]]),
                    np.concatenate([meeting, posted]), EdgeKind.INFERRED, EdgeForm.START_START)  # fmt: skip
    held = np.concatenate([calls[mine], messages])
    leave = Edges.of(np.concatenate([meeting[mine], posted]), at[held], EdgeKind.INFERRED,
                     EdgeForm.FINISH_FINISH, lag)  # fmt: skip
    none[held] = len(come) + np.arange(len(leave))
    return len(numbers) + len(messages), Edges.concat([come, leave]), none


def model_of(run: Run) -> Model:
    """The model of a run."""
    parts: list[RankGraph] = []
    calls: list[RankCalls] = []
    for view in rank_views(run):
        parts.append(graph_of(view))
        calls.append(calls_of(view))
    return Model(parts, match_calls(calls, run.groups, run.world_size))


def per_rank(model: Model, values: NDArray[np.generic]) -> Mapping[int, NDArray[np.generic]]:
    """A value a row of the model, as one array a rank."""
    ends = [*list(model.offset.values())[1:], model.rows]
    return {r: values[a:b] for (r, a), b in zip(model.offset.items(), ends, strict=True)}
