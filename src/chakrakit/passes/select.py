"""Select: keeps some ranks, and of their nodes those of steps, phases, groups, modules, or a time window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.passes.base import NodeSelection, Pass
from chakrakit.trace.communication import Binding, Body, Groups, group_names
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Graph, NodeType, Trace
from chakrakit.trace.placement import NO_LANE, implied_order, issue_order, lane_of
from chakrakit.trace.sets import PS_PER_NS, Run, Times, TraceSet

# --- rows of one trace --------------------------------------------------------------------------

_FS, _SS, _FF = (
    int(f) for f in (EdgeForm.FINISH_START, EdgeForm.START_START, EdgeForm.FINISH_FINISH)
)
Anchors = dict[tuple[int, bool], int]
"""(lane, whether it is an end rather than a start) → the last remaining row on that lane."""


def with_bridging_edges(trace: Trace, remaining: Mask) -> Trace:
    """Returns the remaining rows. Where one had to wait for another through removed rows, it still does.

    What the rows left out took is gone: a bridge is an edge without a lag. Of rows on one stream or
    thread the last is enough, since they wait for each other.
    """
    if remaining.all():
        return trace
    part = trace.with_nesting().select(remaining)
    bridges = list(_Bridges(trace, remaining).bridges())
    if not bridges:
        return part
    place = np.cumsum(remaining) - 1
    src, dst, form = np.array(bridges, np.int64).T
    new = Edges.of(place[src], place[dst], EdgeKind.INFERRED, form.astype(np.int8))
    return part.with_edges(Edges.concat([part.edges, new]))


class _Bridges:
    """Finds which remaining rows wait for each other through removed ones, in topological order."""

    def __init__(self, trace: Trace, remaining: Mask) -> None:
        self.remaining = remaining
        self.lane, self.order = _lanes(trace), issue_order(trace)
        self.calls = _callers(trace)
        self.starts: dict[int, Anchors] = {}
        self.finishes: dict[int, Anchors] = {}
        edges, graph = self._constraints(trace)
        rows = np.flatnonzero(remaining)
        self.between = graph.descendants(rows) & graph.ancestors(rows) & ~remaining
        inside = remaining | self.between
        inner = self.between[edges.src] | self.between[edges.dst]
        relevant = edges.where(inner & inside[edges.src] & inside[edges.dst])
        place = np.empty(len(trace), np.int64)
        place[graph.topological_order()] = np.arange(len(trace))
        order = np.argsort(place[relevant.dst], kind="stable")
        self.edges = list(
            zip(
                relevant.src[order].tolist(),
                relevant.dst[order].tolist(),
                relevant.form[order].tolist(),
                strict=True,
            )
        )

    def _constraints(self, trace: Trace) -> tuple[Edges, Graph]:
        """Returns the edges, with edges for the order of streams and threads where the trace has none."""
        lanes = Edges.of(*implied_order(trace), EdgeKind.STREAM)
        both = Edges.concat([trace.edges, lanes])
        graph = Graph(len(trace), both.src, both.dst)
        # Lanes against the edges cannot run; then the edges alone are what is known.
        return (both, graph) if graph.is_acyclic else (trace.edges, trace.graph)

    def bridges(self) -> Iterator[tuple[int, int, int]]:
        """Yields (source, target, form) of every bridge."""
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
        """Returns the remaining rows that must be over before the target of an edge may go on."""
        if self.remaining[src]:
            # A caller's end says little: what it calls is over later. Its start is in its thread's order.
            finish = form != _SS and not self.calls[src]
            return {(int(self.lane[src]), finish): src}
        anchors = dict(self.starts.get(src, {}))
        if form != _SS:
            self._merge(anchors, self.finishes.get(src, {}))
        return anchors

    def _merge(self, into: Anchors, new: Anchors) -> None:
        for key, row in new.items():
            if key not in into or self.order[into[key]] < self.order[row]:
                into[key] = row


def _callers(trace: Trace) -> Mask:
    """Host rows inside which the thread goes on: their only edge along it leaves at their start."""
    edges = trace.edges.where(np.isin(trace.edges.kind, [int(EdgeKind.THREAD), int(EdgeKind.CALL)]))
    is_caller = np.zeros(len(trace), np.bool_)
    is_caller[edges.src] = True
    is_caller[edges.src[edges.form == EdgeForm.FINISH_START]] = False
    return is_caller


def _lanes(trace: Trace) -> I64:
    """A number that rows which run one after another share; below 0 for rows that have no lane."""
    lane = lane_of(trace)
    return np.where(lane == NO_LANE, -1 - np.arange(len(trace)), lane)


# --- rows of a set of traces --------------------------------------------------------------------


def with_rows(traces: TraceSet, rows_of_rank: Mapping[int, Mask]) -> TraceSet:
    """Returns the same ranks with these rows; ranks that stay alike share a body, and a run stays a run."""
    if all(mask.all() for mask in {id(mask): mask for mask in rows_of_rank.values()}.values()):
        return traces
    masks = {id(mask): mask.tobytes() for mask in rows_of_rank.values()}  # ranks alike share one
    bodies: dict[tuple[int, bytes], int] = {}
    narrowed: list[Body] = []
    bindings = {}
    for rank, binding in traces.bindings.items():
        key = (binding.body, masks[id(rows_of_rank[rank])])
        if key not in bodies:
            bodies[key] = len(narrowed)
            narrowed.append(partial(_body, traces, binding.body, rows_of_rank[rank]))
        bindings[rank] = replace(binding, body=bodies[key])
    if not isinstance(traces, Run):
        return TraceSet(narrowed, bindings, traces.groups, traces.card)
    if traces.times is None:
        return Run(narrowed, bindings, traces.groups, traces.card)
    classes: dict[tuple[int, int], int] = {}
    times: list[Times] = []
    timing = {}
    for rank in traces.ranks:
        pair = (traces.timing[rank], bindings[rank].body)
        if pair not in classes:
            classes[pair] = len(times)
            old = traces.times_of(rank)
            times.append(Times(old.start[rows_of_rank[rank]], old.end[rows_of_rank[rank]]))
        timing[rank] = classes[pair]
    return Run(narrowed, bindings, traces.groups, traces.card, times=times, timing=timing)


def _body(traces: TraceSet, number: int, remaining: Mask) -> Trace:
    return with_bridging_edges(traces.body_at(number), remaining)


# --- whole communication ------------------------------------------------------------------------


def whole_communication(traces: TraceSet, rows_of_rank: Mapping[int, Mask]) -> dict[int, Mask]:
    """Returns each rank's rows without collectives and messages of which another rank loses a part."""
    whole_rows = {rank: mask.copy() for rank, mask in rows_of_rank.items()}
    calls, messages = traces.collectives.calls, traces.collectives.messages
    _drop_partial(whole_rows, calls, calls["instance"].to_numpy())
    _drop_partial(whole_rows, messages, messages["message"].to_numpy())
    return whole_rows


def _drop_partial(rows_of_rank: Mapping[int, Mask], table: pa.Table, number: I64) -> None:
    """Removes all rows that share a number if one of them is already removed."""
    if not table.num_rows:
        return
    rank, row = table["rank"].to_numpy(), table["row"].to_numpy()
    stays = np.array([rows_of_rank[r][i] for r, i in zip(rank.tolist(), row.tolist(), strict=True)])
    broken = np.zeros(number.max() + 1, np.bool_)
    broken[number[~stays]] = True
    for r, i in zip(rank[broken[number]].tolist(), row[broken[number]].tolist(), strict=True):
        rows_of_rank[r][i] = False


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
        """Returns the selected ranks with the selected nodes; selecting nothing is an error."""
        if self.ranks:
            traces = traces.select_ranks(self._chosen_ranks(traces))
        self._selection.refuse_absent(traces)
        if self.around is not None:
            NodeSelection(nodes=(self.around,)).refuse_absent(traces)
        self._refuse_absent_groups(traces)
        rows_of_rank = self._nodes(traces)
        if self.window_us is not None:
            rows_of_rank = self._in_window(traces, rows_of_rank)
        if self.window_us is not None or self.around is not None:
            rows_of_rank = whole_communication(traces, rows_of_rank)
        if not any(mask.any() for mask in rows_of_rank.values()):
            raise TraceError(f"{self}: no node is left; see `chakra info` for what there is")
        selected = with_rows(traces, rows_of_rank)
        return _closed(selected) if self.closed else selected

    @property
    def _selection(self) -> NodeSelection:
        return NodeSelection(phases=self.phases, steps=self.steps, modules=self.modules)

    def _chosen_ranks(self, traces: TraceSet) -> list[int]:
        ranges = _ranges(self.ranks)
        last = max(rank_range.stop for rank_range in ranges) - 1
        if last >= traces.world_size:
            raise TraceError(
                f"ranks: no rank {last}; the last of {len(traces):,} is {traces.ranks[-1]}"
            )
        return sorted({rank for rank_range in ranges for rank in rank_range})

    def _refuse_absent_groups(self, traces: TraceSet) -> None:
        bindings = traces.bindings.values()
        group_texts = {
            *traces.groups,
            *(n for b in bindings for pair in b.groups.items() for n in pair),
        }
        for number in range(traces.body_count) if self.groups else ():
            body = traces.body_at(number)
            rows = np.flatnonzero(body.is_type(NodeType.COMM_COLL_NODE))
            group_texts |= set(group_names(body, rows).to_pylist())
        for name in self.groups:
            if name not in group_texts:
                raise ConfigError(f"groups: no {name!r}; {nearest(name, sorted(group_texts))}")

    def _nodes(self, traces: TraceSet) -> dict[int, Mask]:
        """Returns the rows of each rank that all fields but the window select; ranks alike share one mask."""
        masks: dict[tuple[int, frozenset[str]], Mask] = {}
        rows_of_rank = {}
        for rank, binding in traces.bindings.items():
            key = (binding.body, self._names_in_body(binding))
            if key not in masks:
                masks[key] = self._in_body(traces.body_at(binding.body), key[1])
            rows_of_rank[rank] = masks[key]
        return rows_of_rank

    def _names_in_body(self, binding: Binding) -> frozenset[str]:
        """Returns the names by which a rank's body calls the selected groups."""
        body_names = {name for name, group in binding.groups.items() if group in self.groups}
        return frozenset(body_names | set(self.groups)) if self.groups else frozenset()

    def _in_body(self, trace: Trace, groups: frozenset[str]) -> Mask:
        mask = self._selection.rows(trace)
        if groups:
            rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
            in_groups = np.isin(np.array(group_names(trace, rows).to_pylist(), str), list(groups))
            mask &= np.isin(np.arange(len(trace)), rows[in_groups])
        if self.around is not None:
            mask &= _near(trace, self.around, self.hops)
        return mask

    def _in_window(self, traces: TraceSet, rows_of_rank: Mapping[int, Mask]) -> dict[int, Mask]:
        if not isinstance(traces, Run):
            raise TraceError("window_us: these traces have no times; link or simulate them first")
        assert self.window_us is not None
        first, per_us = traces.span[0], 1000 * PS_PER_NS / traces.tick_ps
        begin, end = (first + us * per_us for us in self.window_us)
        in_window = {}
        for rank, mask in rows_of_rank.items():
            times = traces.times_of(rank)
            in_window[rank] = mask & (times.end > begin) & (times.start < end)
        return in_window


def _ranges(ranks: tuple[int | str, ...]) -> list[range]:
    """Ranks and ranges of ranks, such as 3 and 8-15."""
    ranges = []
    for text in ranks:
        first, dash, last = str(text).partition("-")
        if (
            not first.isdecimal()
            or (dash and not last.isdecimal())
            or int(last or first) < int(first)
        ):
            raise ConfigError(f"ranks: {text!r} should be a rank or a range such as 8-15")
        ranges.append(range(int(first), int(last or first) + 1))
    return ranges


def _near(trace: Trace, node: int, hops: int) -> Mask:
    """Returns the rows at most `hops` edges from a node, in either direction; none if the node is absent."""
    near = trace.ids == np.uint64(max(node, 0))
    for _ in range(hops):
        edges = trace.edges
        reached = near.copy()
        reached[edges.dst[near[edges.src]]] = True
        reached[edges.src[near[edges.dst]]] = True
        if (reached == near).all():
            break
        near = reached
    return np.asarray(near)


def _closed(traces: TraceSet) -> TraceSet:
    """Returns the same traces with groups limited to the ranks that are present."""
    present = set(traces.ranks)
    groups = {n: [r for r in ranks if r in present] for n, ranks in traces.groups.items()}
    return traces.with_groups(Groups({n: ranks for n, ranks in groups.items() if ranks}))
