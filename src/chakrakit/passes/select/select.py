"""Select: some ranks, and of their nodes those of steps, phases, groups, modules, a time or a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.passes.base import Pass
from chakrakit.passes.nodes import Selection
from chakrakit.passes.select.kept_rows import with_rows
from chakrakit.passes.select.whole_communication import whole_communication
from chakrakit.trace.communication import Binding, Groups, group_names
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import PS_PER_NS, Run, TraceSet


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
