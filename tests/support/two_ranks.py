"""A run of two ranks in which one waits for the other."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.trace.sets import Times, run_of


@pytest.fixture
def two_ranks():
    """Rank 1 computes 30 µs, rank 0 10 µs; then an all-reduce of 20 µs; then 5 µs on both.

    rank 0   |compute 10|all-reduce …waits… 20|5|
    rank 1   |compute         30  |all-reduce 20|5|
    """
    traces, times = {}, {}
    for rank, first in enumerate((10_000, 30_000)):
        t = ck.TraceBuilder()
        a = t.comp("forward", duration_ns=first, stream=7, num_ops=1000)
        b = t.collective(
            "sum", ck.CollectiveType.ALL_REDUCE, 1 << 20, pg_name="1", stream=20, deps=[a]
        )
        t.comp("update", duration_ns=5_000, stream=7, deps=[b])
        traces[rank] = t.build()
        times[rank] = Times(np.array([0, first, 50_000]), np.array([first, 50_000, 55_000]))
    return run_of(
        ck.TraceSet([traces[0], traces[1]], groups=ck.Groups({"1": [0, 1]})), times, tick_ps=1000
    )
