"""Memory as an allocator recorded it, at the times of a simulation.

An allocator gives out the same bytes in the same order however long the work in between takes: a recorded
history keeps its bytes, and each of its moments goes where the rows around it went.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.simulator.engine import Outcome
from chakrakit.trace.counters import history_of
from chakrakit.trace.sets import Run


def recorded_history(outcome: Outcome) -> pa.Table | None:
    """The history that the traces come with, as recorded: rank, time_ns and bytes; None without one."""
    traces = outcome.membership.traces
    return history_of(traces.card.settings, traces.counters) if isinstance(traces, Run) else None


def history_peaks(outcome: Outcome) -> dict[int, int]:
    """The most bytes that each recorded rank held."""
    table = recorded_history(outcome)
    if table is None:
        return {}
    found = table.group_by("rank").aggregate([("bytes", "max")]).to_pydict()
    return dict(zip(found["rank"], found["bytes_max"], strict=True))


def history_table(outcome: Outcome) -> dict[str, I64] | None:
    """The history at simulated times."""
    table = recorded_history(outcome)
    if table is None or not len(table):
        return None
    rank, time, held = (table.column(c).to_numpy() for c in ("rank", "time_ns", "bytes"))
    moved = np.zeros(len(time), np.int64)
    for one in np.unique(rank).tolist():
        mine = rank == one
        moved[mine] = _moved(outcome, one, time[mine])
    order = np.lexsort((np.arange(len(time)), moved, rank))
    return {"rank": rank[order], "time_ns": moved[order], "bytes": held[order]}


def _moved(outcome: Outcome, rank: int, time: I64) -> I64:
    """Moments between the starts of two rows stay between them, in the same proportion."""
    c = int(outcome.classes.rank[outcome.membership.index[rank]])
    recorded = outcome.program(c).trace.start_ns
    simulated = outcome.start[outcome.rows(c)] // 1000
    order = np.lexsort((simulated, recorded))
    later = np.maximum.accumulate(simulated[order])
    return np.rint(np.interp(time, recorded[order], later)).astype(np.int64)
