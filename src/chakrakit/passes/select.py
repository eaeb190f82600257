"""Select: some ranks, and of their nodes those of steps, phases, groups, modules, a time or a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.passes.base import Pass, Selection
from chakrakit.trace.communication import Binding, Body, Groups, group_names
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Graph, NodeType, Trace
from chakrakit.trace.placement import NO_LANE, implied_order, issue_order, lane_of
from chakrakit.trace.sets import PS_PER_NS, Run, Times, TraceSet

# Some rows of a trace, with the order that rows left out in between gave them.


_FS, _SS, _FF = (
    int(f) for f in (EdgeForm.FINISH_START, EdgeForm.START_START, EdgeForm.FINISH_FINISH)
)
Anchors = dict[tuple[int, bool], int]
"""(lane, whether an end or a start is meant) → the kept row there that comes last."""


def with_bridging_edges(trace: Trace, kept: Mask) -> Trace:
    """The kept rows. Where one had to wait for another through rows left out, it still does.

    What the rows left out took is gone: a bridge is an edge without a lag. Of rows on one stream or
    thread the last is enough, since they wait for each other.
    """
    if kept.all():
        return trace
    part = trace.with_nesting().select(kept)
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
        self.lane, self.order = _lanes(trace), issue_order(trace)
        self.calls = _callers(trace)
        self.starts: dict[int, Anchors] = {}
        self.finishes: dict[int, Anchors] = {}
        edges, graph = self._constraints(trace)
        rows = np.flatnonzero(kept)
        self.between = graph.descendants(rows) & graph.ancestors(rows) & ~kept
        inside = kept | self.between
        inner = self.between[edges.src] | self.between[edges.dst]
        chosen = edges.where(inner & inside[edges.src] & inside[edges.dst])
        place = np.empty(len(trace), np.int64)
        place[graph.topological_order()] = np.arange(len(trace))
        order = np.argsort(place[chosen.dst], kind="stable")
        self.edges = list(
            zip(
                chosen.src[order].tolist(),
                chosen.dst[order].tolist(),
                chosen.form[order].tolist(),
                strict=True,
            )
        )

    def _constraints(self, trace: Trace) -> tuple[Edges, Graph]:
        """The edges, and the order of streams and threads where no edges say it."""
        lanes = Edges.of(*implied_order(trace), EdgeKind.STREAM)
        both = Edges.concat([trace.edges, lanes])
        graph = Graph(len(trace), both.src, both.dst)
        # Lanes against the edges cannot run; then the edges alone are what is known.
        return (both, graph) if graph.is_acyclic else (trace.edges, trace.graph)

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
            # A caller's end says little: what it calls is over later. Its start is in its thread's order.
            finish = form != _SS and not self.calls[src]
            return {(int(self.lane[src]), finish): src}
        found = dict(self.starts.get(src, {}))
        if form != _SS:
            self._merge(found, self.finishes.get(src, {}))
        return found

    def _merge(self, into: Anchors, new: Anchors) -> None:
        for key, row in new.items():
            if key not in into or self.order[into[key]] < self.order[row]:
                into[key] = row


def _callers(trace: Trace) -> Mask:
    """Host rows inside which the thread goes on: their only edge along it leaves at their start."""
    edges = trace.edges.where(np.isin(trace.edges.kind, [int(EdgeKind.THREAD), int(EdgeKind.CALL)]))
    found = np.zeros(len(trace), np.bool_)
    found[edges.src] = True
    found[edges.src[edges.form == EdgeForm.FINISH_START]] = False
    return found


def _lanes(trace: Trace) -> I64:
    """A number that rows which run one after another share; below 0 for rows that have no lane."""
    lane = lane_of(trace)
    return np.where(lane == NO_LANE, -1 - np.arange(len(trace)), lane)


# A set of traces with some rows of each rank; ranks that stay alike go on sharing a body.


def with_rows(traces: TraceSet, kept: Mapping[int, Mask]) -> TraceSet:
    """The same ranks with these rows; a run stays one."""
    if all(mask.all() for mask in {id(mask): mask for mask in kept.values()}.values()):
        return traces
    masks = {id(mask): mask.tobytes() for mask in kept.values()}  # ranks alike share one
    bodies: dict[tuple[int, bytes], int] = {}
    made: list[Body] = []
    bindings = {}
    for rank, binding in traces.bindings.items():
        key = (binding.body, masks[id(kept[rank])])
        if key not in bodies:
            bodies[key] = len(made)
            made.append(partial(_body, traces, binding.body, kept[rank]))
        bindings[rank] = replace(binding, body=bodies[key])
    if not isinstance(traces, Run):
        return TraceSet(made, bindings, traces.groups, traces.card)
    if traces.times is None:
        return Run(made, bindings, traces.groups, traces.card)
    classes: dict[tuple[int, int], int] = {}
    times: list[Times] = []
    timing = {}
    for rank in traces.ranks:
        pair = (traces.timing[rank], bindings[rank].body)
        if pair not in classes:
            classes[pair] = len(times)
            old = traces.times_of(rank)
            times.append(Times(old.start[kept[rank]], old.end[kept[rank]]))
        timing[rank] = classes[pair]
    return Run(made, bindings, traces.groups, traces.card, times=times, timing=timing)


def _body(traces: TraceSet, number: int, kept: Mask) -> Trace:
    return with_bridging_edges(traces.body_at(number), kept)


# Communication kept whole: what one rank does not keep, the ranks it communicates with do not either.


def whole_communication(traces: TraceSet, kept: Mapping[int, Mask]) -> dict[int, Mask]:
    """Rows to keep by rank, without collectives and messages of which a part is not kept."""
    found = {rank: mask.copy() for rank, mask in kept.items()}
    calls, messages = traces.collectives.calls, traces.collectives.messages
    _drop_partial(found, calls, calls["instance"].to_numpy())
    _drop_partial(found, messages, messages["message"].to_numpy())
    return found


def _drop_partial(kept: Mapping[int, Mask], table: pa.Table, number: I64) -> None:
    """Drops all rows of a number if one of them is not kept."""
    if not table.num_rows:
        return
    rank, row = table["rank"].to_numpy(), table["row"].to_numpy()
    stays = np.array([kept[r][i] for r, i in zip(rank.tolist(), row.tolist(), strict=True)])
    broken = np.zeros(number.max() + 1, np.bool_)
    broken[number[~stays]] = True
    for r, i in zip(rank[broken[number]].tolist(), row[broken[number]].tolist(), strict=True):
        kept[r][i] = False


@dataclass(frozen=True)
class Select(Pass):
    """Keep some ranks, and of their nodes those that every given field means.

    `ranks` may have ranges (`[0, 8-15]`). `phases`, `steps` and `modules` (regular expressions) are
    those of the nodes; what was launched belongs where its launcher does. `groups` keeps
    communication of groups, named as in the groups or as in the programs. `window_us` keeps what runs
    between two times after the run's start, `around` what is at most `hops` edges from a node, by id;
    communication that one of its ranks would lose, the others lose as well.
    """

    name = "select"
    preserves = (
        "the nodes that stay as they are, ids and times included; their order, through nodes left out "
        "as well, but not the time those took; groups: ranks left out count as not recorded, unless closed"
    )
    ranks: tuple[int | str, ...] = ()
    steps: tuple[int, ...] = ()
    phases: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    window_us: tuple[float, float] | None = None
    around: int | None = None
    hops: int = 1
    closed: bool = False
    """Groups keep only the ranks that stay, so that simulators without the others can run them."""

    def __post_init__(self) -> None:
        _ranges(self.ranks)
        if self.window_us is not None and not self.window_us[0] < self.window_us[1]:
            raise ConfigError(
                f"window_us={list(self.window_us)}; it should be [from, to], from before to"
            )
        if self.hops < 0:
            raise ConfigError(f"hops={self.hops}; it should be 0 or more")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The chosen ranks with the chosen nodes; nothing left is an error."""
        if self.ranks:
            traces = traces.select_ranks(self._chosen_ranks(traces))
        self._meant.refuse_absent(traces)
        if self.around is not None:
            Selection(nodes=(self.around,)).refuse_absent(traces)
        self._refuse_absent_groups(traces)
        kept = self._nodes(traces)
        if self.window_us is not None:
            kept = self._in_window(traces, kept)
        if self.window_us is not None or self.around is not None:
            kept = whole_communication(traces, kept)
        if not any(mask.any() for mask in kept.values()):
            raise TraceError(f"{self}: no node is left; see `chakra info` for what there is")
        chosen = with_rows(traces, kept)
        return _closed(chosen) if self.closed else chosen

    @property
    def _meant(self) -> Selection:
        return Selection(phases=self.phases, steps=self.steps, modules=self.modules)

    def _chosen_ranks(self, traces: TraceSet) -> list[int]:
        ranges = _ranges(self.ranks)
        last = max(one.stop for one in ranges) - 1
        if last >= traces.world_size:
            raise TraceError(
                f"ranks: no rank {last}; the last of {len(traces):,} is {traces.ranks[-1]}"
            )
        return sorted({rank for one in ranges for rank in one})

    def _refuse_absent_groups(self, traces: TraceSet) -> None:
        bindings = traces.bindings.values()
        known = {*traces.groups, *(n for b in bindings for pair in b.groups.items() for n in pair)}
        for number in range(traces.body_count) if self.groups else ():
            body = traces.body_at(number)
            rows = np.flatnonzero(body.is_type(NodeType.COMM_COLL_NODE))
            known |= set(group_names(body, rows).to_pylist())
        for name in self.groups:
            if name not in known:
                raise ConfigError(f"groups: no {name!r}; {nearest(name, sorted(known))}")

    def _nodes(self, traces: TraceSet) -> dict[int, Mask]:
        """Rank → rows that the fields other than time mean; ranks alike share one mask."""
        masks: dict[tuple[int, frozenset[str]], Mask] = {}
        found = {}
        for rank, binding in traces.bindings.items():
            key = (binding.body, self._meant_groups(binding))
            if key not in masks:
                masks[key] = self._in_body(traces.body_at(binding.body), key[1])
            found[rank] = masks[key]
        return found

    def _meant_groups(self, binding: Binding) -> frozenset[str]:
        """What the rank's body calls the groups that are meant."""
        own = {name for name, group in binding.groups.items() if group in self.groups}
        return frozenset(own | set(self.groups)) if self.groups else frozenset()

    def _in_body(self, trace: Trace, groups: frozenset[str]) -> Mask:
        found = self._meant.rows(trace)
        if groups:
            rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
            meant = np.isin(np.array(group_names(trace, rows).to_pylist(), str), list(groups))
            found &= np.isin(np.arange(len(trace)), rows[meant])
        if self.around is not None:
            found &= _near(trace, self.around, self.hops)
        return found

    def _in_window(self, traces: TraceSet, kept: Mapping[int, Mask]) -> dict[int, Mask]:
        if not isinstance(traces, Run):
            raise TraceError("window_us: these traces have no times; link or simulate them first")
        assert self.window_us is not None
        first, per_us = traces.span[0], 1000 * PS_PER_NS / traces.tick_ps
        begin, end = (first + us * per_us for us in self.window_us)
        found = {}
        for rank, mask in kept.items():
            times = traces.times_of(rank)
            found[rank] = mask & (times.end > begin) & (times.start < end)
        return found


def _ranges(ranks: tuple[int | str, ...]) -> list[range]:
    """Ranks and ranges of ranks, such as 3 and 8-15."""
    found = []
    for one in ranks:
        first, dash, last = str(one).partition("-")
        if (
            not first.isdecimal()
            or (dash and not last.isdecimal())
            or int(last or first) < int(first)
        ):
            raise ConfigError(f"ranks: {one!r} should be a rank or a range such as 8-15")
        found.append(range(int(first), int(last or first) + 1))
    return found


def _near(trace: Trace, node: int, hops: int) -> Mask:
    """Rows at most so many edges from a node, in either direction; none if it is not there."""
    found = trace.ids == np.uint64(max(node, 0))
    for _ in range(hops):
        edges = trace.edges
        reached = found.copy()
        reached[edges.dst[found[edges.src]]] = True
        reached[edges.src[found[edges.dst]]] = True
        if (reached == found).all():
            break
        found = reached
    return np.asarray(found)


def _closed(traces: TraceSet) -> TraceSet:
    """The same ranks in groups of those that are here."""
    here = set(traces.ranks)
    groups = {n: [r for r in ranks if r in here] for n, ranks in traces.groups.items()}
    return traces.with_groups(Groups({n: ranks for n, ranks in groups.items() if ranks}))
