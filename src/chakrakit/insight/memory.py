"""Memory over time: how much is alive when, by kind, and what holds the peak.

It comes from the tensors that the trace names, from counters, or from the allocator's recorded history.
"""

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
"""Moments of a timeline in a result: about one for every two pixels of a chart 900 wide."""


class Moment(Result, msgspec.Struct):
    """How many bytes are alive from a time on."""

    time_ns: int
    bytes: int


class RankMemory(Result, msgspec.Struct, kw_only=True):
    """The device memory of one rank. `by_kind` is at the peak; `before_bytes` is older than the trace."""

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
    """The memory of all ranks. `peak_bytes` is the largest rank's; 0 where the trace names no tensors."""

    peak_bytes: int
    peak_rank: int
    source: str
    ranks: list[RankMemory]

    def table(self) -> Table:
        """One row per operator that holds memory at the peak."""
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
    """The memory of one rank; None where its trace has no account of memory."""
    allocations = allocations_of(view.trace, view.start, view.end)
    if allocations is None:
        return None
    return RankMemory(
        rank=view.rank,
        peak_bytes=allocations.peak_bytes,
        peak_ns=allocations.peak_time(view.start, view.end),
        before_bytes=allocations.before_bytes,
        by_kind=allocations.by_kind(),
        holders=allocations.holders(),
        timeline=thinned(*allocations.timeline(view.start, view.end)),
        tensors=allocations.tensors,
        source=allocations.source,
    )


def thinned(at: I64, alive: I64) -> list[Moment]:
    """Bytes alive over time in at most _POINTS moments: of each stretch of time the highest."""
    if len(at) <= _POINTS:
        moments = np.arange(len(at))
    else:
        edges = np.linspace(0, len(at), _POINTS + 1).astype(np.int64)
        highest = np.repeat(np.maximum.reduceat(alive, edges[:-1]), np.diff(edges))
        places = np.where(alive == highest, np.arange(len(at)), len(at))
        moments = np.minimum.reduceat(places, edges[:-1])
    return list(map(Moment, at[moments].tolist(), alive[moments].tolist()))


def join_memory(parts: list[RankMemory | None], run: Run | None = None) -> Memory:
    """The memory of all ranks; where no trace accounts for it, the run's counters are used."""
    ranks = [p for p in parts if p is not None]
    if not ranks and run is not None:
        ranks = _counted(run)
    if not ranks:
        return Memory(0, -1, "the trace names no tensors and no bytes held", [])
    top = max(ranks, key=lambda p: p.peak_bytes)
    return Memory(top.peak_bytes, top.rank, top.source, ranks)


def _counted(run: Run) -> list[RankMemory]:
    """The memory of ranks by the run's memory counters."""
    out = []
    for rank in run.ranks if "memory" in run.counters else ():
        for series in run.counters.series(rank):
            if series.name == "memory" and len(series.value):
                held_bytes = series.value.astype(np.int64)
                top = int(held_bytes.argmax())
                line = thinned(series.time_ns, held_bytes)
                kinds = {"other": int(held_bytes[top])}
                when = int(series.time_ns[top])
                out.append(
                    RankMemory(
                        rank=rank,
                        peak_bytes=int(held_bytes[top]),
                        peak_ns=when,
                        before_bytes=0,
                        by_kind=kinds,
                        holders=[],
                        timeline=line,
                        tensors=0,
                        source="counters",
                    )
                )
    return out


def memory(run: Run) -> Memory:
    """The memory of a run over time, by rank."""
    return join_memory([memory_of(view) for view in rank_views(run)], run)


def with_history(memory: Memory, table: pa.Table) -> Memory:
    """Replaces peaks and timelines by the allocator's history; kinds and holders stay those of the tensors.

    `table` has the columns rank, time_ns and bytes: what was allocated from that time on. An empty history
    changes nothing.
    """
    if not len(table):
        return memory
    ranks = table.column("rank").to_numpy()
    by_rank = {m.rank: m for m in memory.ranks}
    parts = []
    for rank in np.unique(ranks).tolist():
        mine = ranks == rank
        time, held_bytes = (table.column(c).to_numpy()[mine] for c in ("time_ns", "bytes"))
        top = int(np.argmax(held_bytes))
        tensor_memory = by_rank.get(rank)
        parts.append(
            RankMemory(
                rank=rank,
                peak_bytes=int(held_bytes[top]),
                peak_ns=int(time[top]),
                before_bytes=int(held_bytes[0]),
                by_kind=tensor_memory.by_kind if tensor_memory else {},
                holders=tensor_memory.holders if tensor_memory else [],
                timeline=thinned(time, held_bytes),
                tensors=tensor_memory.tensors if tensor_memory else 0,
                source="allocator",
            )
        )
    best = max(parts, key=lambda m: m.peak_bytes)
    return Memory(best.peak_bytes, best.rank, "the allocator's own history", parts)
