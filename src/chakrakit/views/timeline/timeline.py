"""What both timeline formats show: of every rank its tracks, arrows and counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.communication import Flows, joined, match_calls, own_flows, shared_flows
from chakrakit.insight.rank import RankView, Tracks, rank_view, tracks_of
from chakrakit.trace.counters import SCHEMAS, Series
from chakrakit.trace.memory import allocations_of
from chakrakit.trace.sets import Run


@dataclass(frozen=True)
class TimelineOptions:
    """What to show.

    flows      arrows for dependencies between tracks, messages and collectives
    memory     a counter of memory in use, where the trace says what is held
    node_size  ranks in a machine; 0 where that is not known
    window     (from, to) in ns: only rows that touch it
    """

    flows: bool = True
    memory: bool = True
    node_size: int = 0
    window: tuple[int, int] | None = None


_MEMORY = SCHEMAS["memory"]


@dataclass(frozen=True, eq=False)
class RankTimeline:
    """One rank, ready to be drawn."""

    view: RankView
    tracks: Tracks
    flows: Flows
    counters: list[Series]


def rank_timelines(run: Run, options: TimelineOptions) -> Iterator[RankTimeline]:
    """Every rank in turn; arrows between ranks are matched first."""
    shared: dict[int, Flows] = {}
    free = 1
    if options.flows:
        matched = match_calls(run)
        shared = shared_flows(matched, free, _touches(matched.start, matched.end, options.window))
        free += 2 * len(matched) + 1
    for rank in run.ranks:
        view = _within(rank_view(run, rank), options.window)
        parts = [_no_flows()]
        if options.flows:
            own, free = own_flows(view, view.lanes[0], free)
            parts += [own, *([shared[rank]] if rank in shared else [])]
        yield RankTimeline(view, tracks_of(view), joined(parts), _counters(run, view, options))


def _within(view: RankView, window: tuple[int, int] | None) -> RankView:
    """Rows outside of the window count as not having run."""
    if window is None:
        return view
    out = ~_touches(view.start, view.end, window)
    return replace(view, start=np.where(out, -1, view.start), end=np.where(out, -1, view.end))


def _touches(start: I64, end: I64, window: tuple[int, int] | None) -> Mask:
    if window is None:
        return np.ones(len(start), np.bool_)
    return (end >= window[0]) & (start <= window[1])


def _no_flows() -> Flows:
    none = np.zeros(0, np.int64)
    return Flows(none, none, none.astype(np.bool_), none.astype(np.bool_))


def _counters(run: Run, view: RankView, options: TimelineOptions) -> list[Series]:
    """Memory as the trace accounts for it, and every other figure over time that the run carries."""
    found = [s for s in run.counters.series(view.rank) if s.name != _MEMORY.name]
    if not options.memory:
        return found
    if options.window is None and (held := allocations_of(view.trace, view.start, view.end)):
        time, value = held.timeline(view.start, view.end)
        return [*found, Series(_MEMORY.name, _MEMORY.unit, time, value.astype(np.float64))]
    return [*found, *(s for s in run.counters.series(view.rank) if s.name == _MEMORY.name)]
