"""Runs of collectives whose arrivals and ends are given."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of


def collectives(
    arrivals: list[list[int]],
    ends: list[int],
    size: int = 1 << 20,
    kind=ck.CollectiveType.ALL_REDUCE,
):
    """One collective a column: when each rank came, and when all were done."""
    bodies, times = [], {}
    for rank, mine in enumerate(arrivals):
        t = ck.TraceBuilder()
        for _ in mine:
            t.collective("c", kind, size, pg_name="1", stream=20)
        bodies.append(t.build())
        times[rank] = Times(np.array(mine), np.array(ends))
    groups = ck.Groups({"1": range(len(arrivals))})
    return run_of(ck.TraceSet(bodies, groups=groups), times, tick_ps=1000)
