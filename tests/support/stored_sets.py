"""Sets of traces to store and read again: two bodies shared by three ranks, and a run of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chakrakit import (
    Binding,
    Card,
    CollectiveType,
    Groups,
    Run,
    Times,
    Trace,
    TraceBuilder,
    TraceSet,
)
from chakrakit.trace.sets import run_of


def program(name: str = "gemm", start_ns: int = 0) -> Trace:
    t = TraceBuilder()
    a = t.comp(name, duration_ns=1_500, start_ns=start_ns)
    t.collective("sync", CollectiveType.ALL_REDUCE, 64, deps=[a], pg_name="tp")
    return t.build()


FOLDED = TraceSet(
    [program("a"), program("b")],
    {0: Binding(0), 1: Binding(0, {"tp": "5"}, {0: 1}, 2.0), 4: Binding(1)},
    Groups({"tp": [0, 4], "5": [1, 2]}),
    Card(name="job", tool="test", settings={"x": [1, {"y": None}]}),
)


def timed() -> Run:
    times = {
        r: Times(np.array([0, r % 2]), np.array([5, 9]), binding_row=np.array([-1, 0], np.int32))
        for r in FOLDED.ranks
    }
    counters = {"links": {"link": ["a"], "bytes": [7], "busy_ns": [1]}}
    return run_of(FOLDED, times, counters, tick_ps=1, epoch_ns=77)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def same(one: TraceSet, other: TraceSet) -> None:
    assert one.bindings == other.bindings
    assert one.groups == other.groups
    for rank in one.ranks:
        assert (
            one.trace(rank).nodes.to_pylist()
            == other.trace(rank).nodes.select(one.trace(rank).nodes.column_names).to_pylist()
        )
