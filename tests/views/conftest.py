"""The two ranks of the insight tests, shown."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.trace.sets.run import Times, run_of


@pytest.fixture
def two_ranks() -> ck.Run:
    """Rank 0 comes 20 µs before rank 1 to an all-reduce of 20 µs; then 5 µs on both."""
    bodies, times = [], {}
    for rank, first in enumerate((10_000, 30_000)):
        t = ck.TraceBuilder()
        a = t.comp("forward", duration_ns=first, stream=7, num_ops=1000)
        b = t.collective(
            "sum", ck.CollectiveType.ALL_REDUCE, 1 << 20, pg_name="1", stream=20, deps=[a]
        )
        t.comp("update", duration_ns=5_000, stream=7, deps=[b])
        bodies.append(t.build())
        times[rank] = Times(np.array([0, first, 50_000]), np.array([first, 50_000, 55_000]))
    return run_of(ck.TraceSet(bodies, groups=ck.Groups({"1": [0, 1]})), times, tick_ps=1000)
