"""A run as one graph that can be scheduled again: all ranks, their collectives and messages coupled.

A collective ends on every rank a fixed transfer time after the last rank has come; a message its
transfer time after both ends have begun. All other constraints are the edges of the traces and, where those
are missing, the order of serial lanes. With unchanged durations, scheduling the graph reproduces the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import F64, I8, I32, I64, Mask, is_among
from chakrakit.insight.communication import AllCalls, Matched
from chakrakit.insight.rank import RankView, rank_views
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Scalar
from chakrakit.trace.placement import implied_order
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import Schedule, schedule


class GrowingArray(Generic[Scalar]):
    """One large array that small ones are appended to.

    A list of small arrays would need twice the memory while it is joined, and freeing them leaves holes too
    small for large arrays.
    """

    def __init__(self, dtype: type[Scalar]) -> None:
        self._data: NDArray[Scalar] = np.empty(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, values: NDArray[Scalar]) -> None:
        """Appends an array."""
        size = self._size + len(values)
        if size > len(self._data):
            self._data.resize(max(size, len(self._data) * 9 // 8), refcheck=False)
        self._data[self._size : size] = values
        self._size = size

    def take(self) -> NDArray[Scalar]:
        """Returns the whole array; afterwards this object is empty."""
        contents, self._data = self._data, self._data[:0].copy()
        contents.resize(self._size, refcheck=False)
        self._size = 0
        return contents


_HOST_EDGES = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)
_LONG_AGO = -(2**62)
"""Before any time in ns, with room to subtract another one from it without overflow."""


@dataclass(frozen=True, eq=False)
class RankGraph:
    """One rank's rows and constraints."""

    rank: int
    begin: int | None
    """When the rank's first row began; None where no row ran."""
    own: I64
    release: I64
    """When each row without a predecessor began; _LONG_AGO for all others."""
    kind: I8
    holder: I32
    """The host row at work right before each row began; the row itself where nothing is around it."""
    edges: Edges


def graph_of(view: RankView) -> RankGraph:
    """The rows and constraints of one rank."""
    edges = view.trace.edges
    edges = edges.where(view.ran[edges.src] & view.ran[edges.dst])
    if not (edges.kind == EdgeKind.STREAM).any():
        edges = Edges.concat([edges, _lane_edges(view, edges)])
    edges = Edges.concat([edges, _thread_edges(view)])
    free = view.ran.copy()
    free[edges.dst[edges.form != EdgeForm.FINISH_FINISH]] = False
    ran = view.end >= 0
    rows = np.arange(len(view), dtype=np.int32)
    return RankGraph(
        view.rank,
        int(view.start[ran].min()) if ran.any() else None,
        np.where(view.ran, view.own, 0),
        np.where(free, view.start, _LONG_AGO),
        view.kind,
        _at_work_before(view, edges, np.where(view.parent >= 0, view.parent, rows)),
        edges,
    )


def _at_work_before(view: RankView, edges: Edges, around: I32) -> I32:
    """For each row, the host row that most of the host's gap before it belongs to.

    That is the row around it, or a row that ended in the gap: a product that views one of its tensors
    computes after the view has ended.
    """
    gaps = edges.where(
        np.isin(edges.kind, _HOST_EDGES) & (edges.form == EdgeForm.FINISH_START) & (edges.lag > 0)
    )
    holder, row, ended = around.copy(), view.parent[gaps.src], view.end[gaps.src]
    most = np.zeros(len(gaps), np.int64)
    owner = around[gaps.dst]
    inside = np.arange(len(gaps))
    while len(inside):
        inside = inside[(row[inside] >= 0) & (row[inside] != around[gaps.dst[inside]])]
        inside = inside[view.end[row[inside]] <= view.start[gaps.dst[inside]]]
        part = view.end[row[inside]] - ended[inside]
        longer = inside[part > most[inside]]
        owner[longer], most[longer] = row[longer], view.end[row[longer]] - ended[longer]
        ended[inside], row[inside] = view.end[row[inside]], view.parent[row[inside]]
    rest = view.start[gaps.dst] - ended
    owner = np.where(rest >= most, around[gaps.dst], owner)
    holder[gaps.dst] = owner
    return holder


def _lane_edges(view: RankView, edges: Edges) -> Edges:
    """Edges for the order on lanes whose rows never overlap: streams, and serial engines.

    Pairs of rows that an edge already orders get no second one.
    """
    before, after = view.lane_pairs
    serial = edges.where((edges.form == EdgeForm.FINISH_START) & (edges.lag >= 0))
    edge_pairs = serial.src.astype(np.int64) * len(view) + serial.dst
    new = ~is_among(before * len(view) + after, edge_pairs)
    return Edges.of(before[new], after[new], EdgeKind.STREAM)


def _thread_edges(view: RankView) -> Edges:
    """Edges for the order on host threads that the trace implies, where the times agree with it.

    In a simulated run, host rows that name no thread ran one at a time.
    """
    host = view.on_host & view.ran
    if not host.any():
        return Edges.of([], [])
    before, after = implied_order(view.trace)
    if not view.measured:
        rows = np.flatnonzero(host & ~view.trace.has("tid") & ~view.is_comm)
        rows = rows[np.lexsort((rows, view.end[rows], view.start[rows]))]
        before, after = np.r_[before, rows[:-1]], np.r_[after, rows[1:]]
    in_order = host[before] & host[after] & (view.end[before] <= view.start[after])
    return Edges.of(before[in_order], after[in_order], EdgeKind.THREAD)


class RankGraphs:
    """The graphs of all ranks, one rank's rows after another's."""

    def __init__(self) -> None:
        self.offset: dict[int, int] = {}
        self.begin: int | None = None
        self.own, self.release = GrowingArray(np.int64), GrowingArray(np.int64)
        self.kind, self.holder = GrowingArray(np.int8), GrowingArray(np.int32)
        self.src, self.dst = GrowingArray(np.int32), GrowingArray(np.int32)
        self.edge_kind, self.form, self.lag = (
            GrowingArray(np.int8),
            GrowingArray(np.int8),
            GrowingArray(np.int64),
        )

    def add(self, part: RankGraph) -> None:
        """Appends the rows and edges of a rank."""
        shift = len(self.own)
        self.offset[part.rank] = shift
        if part.begin is not None:
            self.begin = part.begin if self.begin is None else min(self.begin, part.begin)
        self.own.add(part.own)
        self.release.add(part.release)
        self.kind.add(part.kind)
        self.holder.add(part.holder + np.int32(shift))
        self.add_edges(part.edges, shift)

    def add_edges(self, edges: Edges, shift: int = 0) -> None:
        """Appends edges; those of one rank are shifted to where its rows begin."""
        self.src.add(edges.src + np.int32(shift))
        self.dst.add(edges.dst + np.int32(shift))
        self.edge_kind.add(edges.kind)
        self.form.add(edges.form)
        self.lag.add(edges.lag)

    def take_edges(self) -> Edges:
        """Returns all edges and empties the lists; whether an edge was control or data is not kept."""
        neither = np.broadcast_to(np.False_, len(self.src))
        return Edges(
            self.src.take(),
            self.dst.take(),
            self.edge_kind.take(),
            self.form.take(),
            self.lag.take(),
            neither,
        )


class Model:
    """The whole run as rows 0…n-1: the ranks' rows one after another, then one row a coupling.

    `offset[rank]` is where a rank's rows begin. `own` and `edges` are what a change may scale:
    `own` the time of each row, `transfer[row]` the edge that carries a coupled call's transfer (-1
    for others). `stands_for` maps ranks without a part of their own to one with the same program and
    times: what they do is what that one does. The graphs are used up.
    """

    def __init__(
        self, graphs: RankGraphs, matched: Matched, stands_for: Mapping[int, int] | None = None
    ) -> None:
        self.offset, self.rows = graphs.offset, len(graphs.own)
        at = self._places(matched, stands_for or {})
        present = np.isin(matched.rank, list(self.offset))
        couplings, extra, transfer_of = _couplings(matched, at, self.rows, present)
        self.n = self.rows + couplings
        self._add_couplings(graphs, extra, couplings)
        self._couple(matched, at, transfer_of, len(extra))

    def _add_couplings(self, graphs: RankGraphs, extra: Edges, couplings: int) -> None:
        graphs.add_edges(extra)
        for column in (graphs.own, graphs.release):
            column.add(np.zeros(couplings, np.int64))
        self.own, self.release = graphs.own.take(), graphs.release.take()
        self.release[: self.rows] -= graphs.begin or 0
        np.maximum(self.release, 0, out=self.release)
        self.kind, self.holder = graphs.kind.take(), graphs.holder.take()
        self.edges = graphs.take_edges()

    def _couple(self, matched: Matched, at: I64, transfer_of: I64, extra: int) -> None:
        """Lets coupled calls take no time of their own: their end is set by the coupling's transfer edge."""
        coupled = transfer_of >= 0
        self.own[at[coupled]] = 0
        messages = coupled & ~matched.collective
        self.own[at[messages]] = matched.transfer[messages]
        self.transfer = np.full(self.n, -1, np.int32)
        self.transfer[at[coupled]] = transfer_of[coupled] + len(self.edges) - extra

    def _places(self, matched: Matched, stands_for: Mapping[int, int]) -> I64:
        """The row of each call, or of the call that stands for it."""
        ranks, place = np.unique(matched.rank, return_inverse=True)
        first = [self.offset[stands_for.get(r, r)] for r in ranks.tolist()]
        return np.array(first or [0], np.int64)[place] + matched.row

    def schedule(self, own_ns: I64 | None = None) -> Schedule:
        """Schedules all rows; with `own_ns`, rows take that long instead of their own times."""
        times = self.own if own_ns is None else own_ns
        return schedule(self.n, self.edges, times, release=self.release)

    @cached_property
    def end(self) -> I64:
        """When each row ends if nothing is changed."""
        return self.schedule().end

    @property
    def makespan(self) -> int:
        """How long the run takes as scheduled."""
        return int(self.end.max()) if self.n else 0

    def makespan_with(self, factors: F64) -> int:
        """How long the run takes with each row's own time, transfer and host gap before it multiplied."""
        own_ns = np.rint(self.own * factors).astype(np.int64)
        numbers, by = self._scaled_edges(factors)
        lag = self.edges.lag
        original_lag = lag[numbers]
        lag[numbers] = np.rint(original_lag * by).astype(np.int64)  # a copy of all would be large
        try:
            end = self.schedule(own_ns).end
        finally:
            lag[numbers] = original_lag
        return int(end.max()) if self.n else 0

    def _scaled_edges(self, factors: F64) -> tuple[I64, F64]:
        """The edges whose lag changes with these factors, and the factor of each.

        A transfer has the factor of its call. The host's gap before a row has the factor of the row around
        it, or of the row itself where there is none.
        """
        rows = np.flatnonzero((self.transfer >= 0) & (factors != 1.0))
        gaps = np.flatnonzero(np.isin(self.edges.kind, _HOST_EDGES) & (self.edges.lag > 0))
        by = factors[self.holder[self.edges.dst[gaps]]]
        gaps, by = gaps[by != 1.0], by[by != 1.0]
        numbers = np.concatenate([self.transfer[rows].astype(np.int64), gaps])
        return numbers, np.concatenate([factors[rows], by])

    @cached_property
    def slack(self) -> I64:
        """How much later each row could end without the run taking longer.

        The longest path from a row to the end of the run comes from scheduling the graph backwards: starts
        and ends change places, and so do the forms of edges.
        """
        turned = np.array(
            [EdgeForm.FINISH_START, EdgeForm.FINISH_FINISH, EdgeForm.START_START], np.int8
        )
        back = Edges(
            self.edges.dst,
            self.edges.src,
            self.edges.kind,
            turned[self.edges.form],
            self.edges.lag,
            self.edges.ctrl,
        )
        after = schedule(self.n, back, self.own).start
        return np.asarray(self.makespan - after - self.end)


def _couplings(matched: Matched, at: I64, first: int, present: Mask) -> tuple[int, Edges, I64]:
    """The number of extra rows, the edges through them, and the edge of each call's transfer.

    An extra row means that all members have come: the start of every member leads to it, and it leads to the
    end of every member that is present in the model.
    """
    transfer_edge = np.full(len(matched), -1, np.int64)
    joins = matched.collective & (matched.end >= matched.arrival)
    joins &= np.isin(matched.instance, matched.instance[present])
    paired = np.flatnonzero(matched.paired & present)
    waits = matched.end[paired] >= matched.start[matched.partner[paired]]
    calls, messages = np.flatnonzero(joins), paired[waits]
    numbers, place = np.unique(matched.instance[calls], return_inverse=True)
    meeting = first + place.reshape(-1)
    posted = first + len(numbers) + np.arange(len(messages))
    mine = present[calls]
    lag = np.concatenate([(matched.end - matched.arrival)[calls[mine]], matched.transfer[messages]])
    come = Edges.of(
        np.concatenate([at[calls], at[matched.partner[messages]]]),
        np.concatenate([meeting, posted]),
        EdgeKind.INFERRED,
        EdgeForm.START_START,
    )
    coupled = np.concatenate([calls[mine], messages])
    leave = Edges.of(
        np.concatenate([meeting[mine], posted]),
        at[coupled],
        EdgeKind.INFERRED,
        EdgeForm.FINISH_FINISH,
        lag,
    )
    transfer_edge[coupled] = len(come) + np.arange(len(leave))
    return len(numbers) + len(messages), Edges.concat([come, leave]), transfer_edge


def model_of(run: Run) -> Model:
    """The model of a run."""
    graphs, calls = RankGraphs(), AllCalls(run)
    for view in rank_views(run):
        graphs.add(graph_of(view))
        calls.add_view(view)
    return Model(graphs, calls.matched())


def per_rank(model: Model, values: NDArray[np.generic]) -> Mapping[int, NDArray[np.generic]]:
    """Splits an array with one value per row of the model into one array per rank."""
    ends = [*list(model.offset.values())[1:], model.rows]
    return {r: values[a:b] for (r, a), b in zip(model.offset.items(), ends, strict=True)}
