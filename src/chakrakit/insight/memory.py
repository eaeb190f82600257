"""Memory over time: what lives when, by kind, and who holds the peak; the account is the trace's own."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.insight.rank import RankView, Table, ms, percent, rank_views
from chakrakit.results import Result
from chakrakit.trace.memory import Holder, allocations_of
from chakrakit.trace.sets import Run

_POINTS = 500


class Moment(Result, msgspec.Struct):
    """Bytes alive from a moment on."""

    time_ns: int
    bytes: int


class RankMemory(Result, msgspec.Struct):
    """One rank's device memory. `by_kind` is at the peak; `before_bytes` was there before the window."""

    rank: int
    peak_bytes: int
    peak_ns: int
    before_bytes: int
    by_kind: dict[str, int]
    holders: list[Holder]
    timeline: list[Moment]
    tensors: int
    source: str = ""


class Memory(Result, msgspec.Struct):
    """All ranks. `peak_bytes` is the largest rank's; 0 where the trace names no tensors."""

    peak_bytes: int
    peak_rank: int
    source: str
    ranks: list[RankMemory]

    def table(self) -> Table:
        """Who holds the peak."""
        top = next((r for r in self.ranks if r.rank == self.peak_rank), None)
        rows = [
            (
                h.kind,
                h.operator,
                round(h.bytes / 2**20, 1),
                h.tensors,
                percent(h.bytes, self.peak_bytes),
            )
            for h in (top.holders if top else [])
        ]
        when = f" at {ms(top.peak_ns):,} ms" if top else ""
        title = f"memory: peak {self.peak_bytes / 2**20:,.1f} MiB on rank {self.peak_rank}{when}"
        return Table.of(title, ("kind", "operator", "MiB", "tensors", "%"), rows)


def memory_of(view: RankView) -> RankMemory | None:
    """The part of one rank; None where its trace says nothing about memory."""
    found = allocations_of(view.trace, view.start, view.end)
    if found is None:
        return None
    return RankMemory(
        view.rank,
        found.peak_bytes,
        found.peak_time(view.start, view.end),
        found.before_bytes,
        found.by_kind(),
        found.holders(),
        thinned(*found.timeline(view.start, view.end)),
        found.tensors,
        found.source,
    )


def thinned(at: I64, alive: I64) -> list[Moment]:
    """At most some hundred moments: of each stretch the highest."""
    if len(at) <= _POINTS:
        chosen = np.arange(len(at))
    else:
        edges = np.linspace(0, len(at), _POINTS + 1).astype(np.int64)
        highest = np.repeat(np.maximum.reduceat(alive, edges[:-1]), np.diff(edges))
        places = np.where(alive == highest, np.arange(len(at)), len(at))
        chosen = np.minimum.reduceat(places, edges[:-1])
    return list(map(Moment, at[chosen].tolist(), alive[chosen].tolist()))


def join_memory(parts: list[RankMemory | None], run: Run | None = None) -> Memory:
    """All ranks; what no trace accounts for is taken from what the run counted."""
    known = [p for p in parts if p is not None]
    if not known and run is not None:
        known = _counted(run)
    if not known:
        return Memory(0, -1, "the trace names no tensors and no bytes held", [])
    top = max(known, key=lambda p: p.peak_bytes)
    return Memory(top.peak_bytes, top.rank, top.source, known)


def _counted(run: Run) -> list[RankMemory]:
    """From snapshots of how much was held."""
    out = []
    for rank in run.ranks if "memory" in run.counters else ():
        for series in run.counters.series(rank):
            if series.name == "memory" and len(series.value):
                held = series.value.astype(np.int64)
                top = int(held.argmax())
                line = thinned(series.time_ns, held)
                kinds = {"other": int(held[top])}
                when = int(series.time_ns[top])
                out.append(
                    RankMemory(rank, int(held[top]), when, 0, kinds, [], line, 0, "counters")
                )
    return out


def memory(run: Run) -> Memory:
    """Memory over time by rank."""
    return join_memory([memory_of(view) for view in rank_views(run)], run)


# Memory as the allocator itself recorded it, where a run has its history.


def with_history(found: Memory, table: pa.Table) -> Memory:
    """Peaks and timelines from the allocator's history; kinds and holders as the trace's tensors say.

    `table` has the columns rank, time_ns and bytes: what was given out from that moment on. A history
    without a moment says nothing.
    """
    if not len(table):
        return found
    ranks = table.column("rank").to_numpy()
    known = {m.rank: m for m in found.ranks}
    parts = []
    for rank in np.unique(ranks).tolist():
        mine = ranks == rank
        time, held = (table.column(c).to_numpy()[mine] for c in ("time_ns", "bytes"))
        top = int(np.argmax(held))
        told = known.get(rank)
        parts.append(
            RankMemory(
                rank,
                int(held[top]),
                int(time[top]),
                int(held[0]),
                told.by_kind if told else {},
                told.holders if told else [],
                thinned(time, held),
                told.tensors if told else 0,
                "allocator",
            )
        )
    best = max(parts, key=lambda m: m.peak_bytes)
    return Memory(best.peak_bytes, best.rank, "the allocator's own history", parts)
