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
    every_rank  draw every rank, also where one of many that are alike would do
    """

    flows: bool = True
    memory: bool = True
    node_size: int = 0
    window: tuple[int, int] | None = None
    every_rank: bool = False


_MEMORY = SCHEMAS["memory"]
MOST_RANKS = 64
"""With more ranks than this, one is drawn for all that run the same program at the same times."""


@dataclass(frozen=True, eq=False)
class RankTimeline:
    """One rank, ready to be drawn; `ranks` is how many it stands for, itself included."""

    view: RankView
    ranks: int
    tracks: Tracks
    flows: Flows
    counters: list[Series]

    @property
    def label(self) -> str:
        """What the rank is called."""
        more = f" (1 of {self.ranks:,} alike)" if self.ranks > 1 else ""
        return f"rank {self.view.rank}{more}"


def drawn_ranks(run: Run, options: TimelineOptions) -> list[tuple[int, ...]]:
    """Ranks that are drawn, each first among those that it stands for."""
    if options.every_rank or len(run) <= MOST_RANKS:
        return [(rank,) for rank in run.ranks]
    return run.folds


def rank_timelines(run: Run, options: TimelineOptions) -> Iterator[RankTimeline]:
    """Every drawn rank in turn; arrows between ranks are matched first."""
    drawn = drawn_ranks(run, options)
    shared, free = _arrows(run, drawn, options.window) if options.flows else ({}, 1)
    for like in drawn:
        rank = like[0]
        view = _within(rank_view(run, rank), options.window)
        parts = [_no_flows()]
        if options.flows:
            own, free = own_flows(view, view.lanes[0], free)
            parts += [own, *([shared[rank]] if rank in shared else [])]
        counters = _counters(run, view, options)
        yield RankTimeline(view, len(like), tracks_of(view), joined(parts), counters)


def _arrows(
    run: Run, drawn: list[tuple[int, ...]], window: tuple[int, int] | None
) -> tuple[dict[int, Flows], int]:
    """Arrows between the ranks that are drawn, and the next number that is free for one."""
    matched = match_calls(run, drawn)
    shown = _touches(matched.start, matched.end, window)
    shown &= np.isin(matched.rank, [like[0] for like in drawn])
    # The other end of a message may be on a rank that this one stands for: that is no arrow to itself.
    shown &= (matched.partner < 0) | (matched.rank[matched.partner] != matched.rank)
    return shared_flows(matched, 1, shown), 2 * len(matched) + 2


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
