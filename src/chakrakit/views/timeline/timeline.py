"""What both timeline formats show: of every rank its tracks, arrows and counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, Mask
from chakrakit.insight.communication import (
    Flows,
    calls_of,
    joined,
    match_calls,
    own_flows,
    shared_flows,
)
from chakrakit.insight.memory import memory_of
from chakrakit.insight.rank import RankView, Tracks, rank_view, tracks_of
from chakrakit.trace.sets import Run


@dataclass(frozen=True)
class TimelineOptions:
    """What to show.

    flows      arrows for dependencies between tracks, messages and collectives
    memory     a counter of memory in use, where the trace names tensors
    node_size  ranks in a machine; 0 where that is not known
    window     (from, to) in ns: only rows that touch it
    """

    flows: bool = True
    memory: bool = True
    node_size: int = 0
    window: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Counter:
    """A figure over time: a value from each moment on."""

    name: str
    unit: str
    time: I64
    value: I64


@dataclass(frozen=True, eq=False)
class RankTimeline:
    """One rank, ready to be drawn."""

    view: RankView
    tracks: Tracks
    flows: Flows
    counters: list[Counter]


def rank_timelines(run: Run, options: TimelineOptions) -> Iterator[RankTimeline]:
    """Every rank in turn; arrows between ranks are matched first."""
    shared: dict[int, Flows] = {}
    free = 1
    if options.flows:
        matched = match_calls(
            [calls_of(rank_view(run, r)) for r in run.ranks], run.groups, run.world_size
        )
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


def _counters(run: Run, view: RankView, options: TimelineOptions) -> list[Counter]:
    out = [c for name, table in run.counters.items() for c in _series(name, table, view.rank)]
    found = memory_of(view) if options.memory and options.window is None else None
    if found is not None:
        moments = found.timeline
        out.append(
            Counter(
                "memory",
                "bytes",
                np.array([m.time_ns for m in moments]),
                np.array([m.bytes for m in moments]),
            )
        )
    return out


def _series(name: str, table: pa.Table, rank: int) -> list[Counter]:
    """Counters of a table with a time: one a numeric column and distinct text, for this rank."""
    if "time_ns" not in table.column_names or "rank" not in table.column_names:
        return []
    table = table.filter(pc.equal(table.column("rank"), rank)).sort_by("time_ns")
    texts = [c for c in table.column_names if pa.types.is_string(table.column(c).type)]
    numbers = [c for c in table.column_names if c not in (*texts, "time_ns", "rank")]
    label = table.column(texts[0]).to_pylist() if texts else [""] * table.num_rows
    out = []
    for which in dict.fromkeys(label):
        mine = np.array([x == which for x in label], np.bool_)
        time = table.column("time_ns").to_numpy()[mine]
        for column in numbers:
            value = np.rint(table.column(column).to_numpy()[mine]).astype(np.int64)
            out.append(Counter(f"{name} {which} {column}".replace("  ", " "), "", time, value))
    return out
