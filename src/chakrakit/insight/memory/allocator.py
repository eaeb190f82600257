"""Memory as the allocator itself recorded it, where a run has its history."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chakrakit.insight.memory.memory import Memory, RankMemory, thinned


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
