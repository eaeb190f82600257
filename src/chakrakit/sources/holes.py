"""Time for which nothing is recorded: one wrong time or clock makes a run of days out of a second."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.sets import Run, whole_ns

_HOUR_NS = 3600 * 10**9
"""No step of a program waits for an hour."""


def longest_hole(run: Run) -> str:
    """A sentence on the longest time in which nothing begins or ends, if it is hours and most of the run."""
    first, last = run.span_ns
    if last - first <= _HOUR_NS:
        return ""
    moment, rank, row = _moments(run)
    order = np.argsort(moment, kind="stable")
    empty = np.diff(moment[order])
    at = int(np.argmax(empty))
    if empty[at] <= max(_HOUR_NS, (last - first) // 2):
        return ""
    # The smaller side is the one that lies apart.
    after = 2 * (at + 1) > len(order)
    apart = int(order[at + 1 if after else at])
    name = run.trace(int(rank[apart])).names[int(row[apart])].as_py()
    return (
        f"nothing begins or ends for {empty[at] / _HOUR_NS:,.1f} of its {(last - first) / _HOUR_NS:,.1f} "
        f"hours {'before' if after else 'after'} {name!r} of rank {rank[apart]}: a time or a clock is wrong, "
        "or the files are of different runs"
    )


def _moments(run: Run) -> tuple[I64, I64, I64]:
    """Starts and ends of all rows that ran, with the rank and the row of each."""
    moments, ranks, rows = [], [], []
    for rank in (fold[0] for fold in run.folds):
        start, end = whole_ns(run.times_of(rank), run.tick_ps)
        ran = np.flatnonzero(end >= np.maximum(start, 0))
        moments += [start[ran], end[ran]]
        rows += [ran, ran]
        ranks.append(np.full(2 * len(ran), rank, np.int64))
    return np.concatenate(moments), np.concatenate(ranks), np.concatenate(rows)
