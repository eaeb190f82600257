"""A run for bundles, and whether two runs are the same."""

from __future__ import annotations

import numpy as np

from chakrakit import Binding, Card, CollectiveType, Groups, Run, Times, TraceBuilder, TraceSet


def some_run() -> Run:
    """Three ranks of two programs; two ranks share one, with groups of their own."""
    bodies = []
    for size in (64, 128):
        t = TraceBuilder()
        a = t.comp("gemm", duration_ns=1_500, num_ops=10)
        t.collective("sync", CollectiveType.ALL_REDUCE, size, deps=[a], pg_name="g")
        bodies.append(t.build())
    bindings = {0: Binding(0, {"g": "1"}), 1: Binding(0, {"g": "2"}), 2: Binding(1)}
    times = [Times(np.array([0, 10]), np.array([10, 30 + i])) for i in range(2)]
    return Run(
        bodies,
        bindings,
        Groups({"1": [0], "2": [1], "g": [2]}),
        Card(name="two programs", tool="by hand"),
        times=times,
        timing={0: 0, 1: 1, 2: 0},
    )


def same(a: TraceSet, b: TraceSet) -> bool:
    """Whether both have the same ranks, programs, groups and times."""
    assert isinstance(a, Run)
    assert isinstance(b, Run)
    return (
        a.bindings == b.bindings
        and a.groups == b.groups
        and all(a.trace(r).nodes.to_pylist() == b.trace(r).nodes.to_pylist() for r in a.ranks)
        and all(np.array_equal(a.start(r), b.start(r)) for r in a.ranks)
        and all(np.array_equal(a.end(r), b.end(r)) for r in a.ranks)
    )
