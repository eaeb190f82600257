"""A rank's own work by step: without waiting, and comparable with ranks that do the same."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.diagnosis import pace_of
from chakrakit.insight.rank import rank_view
from chakrakit.insight.step_times import steps_of
from chakrakit.trace.sets import Times, run_of


def view(*work: tuple[str, int, int], rank: int = 0):
    """Kernels as (name, start, end), with a host operator and a sum beside them; ten is a step."""
    t = ck.TraceBuilder()
    for name, start, _ in work:
        t.comp(name, stream=7, step=start // 10)
    t.comp("host", is_cpu_op=True, tid=1, step=0)
    t.collective("sum", ck.CollectiveType.ALL_REDUCE, 8, stream=20, step=0)
    start = np.array([*(s for _, s, _ in work), 0, 0])
    end = np.array([*(e for _, _, e in work), 9, 9])
    return rank_view(run_of(ck.TraceSet([t.build()]), {0: Times(start, end)}, tick_ps=1000), 0)


def test_only_what_the_device_computes_counts_in_the_step_where_it_begins():
    rank = view(("gemm", 0, 3), ("norm", 4, 6), ("gemm", 10, 14))
    pace = pace_of(rank, steps_of(rank)[1])
    assert pace.step.tolist() == [0, 1]
    assert pace.start_ns.tolist() == [0, 10]
    assert pace.compute_ns.tolist() == [5, 4]


def test_ranks_with_the_same_operations_can_be_compared_whatever_their_times():
    a, b = view(("gemm", 0, 3), ("norm", 4, 6)), view(("norm", 0, 1), ("gemm", 4, 9))
    peer = view(("gemm", 0, 3), ("gemm", 4, 6))
    works = [pace_of(v, steps_of(v)[1]).work for v in (a, b, peer)]
    assert works[0] == works[1] != works[2]


def test_without_steps_there_is_no_pace():
    pace = pace_of(view(("gemm", 0, 3)), [])
    assert (len(pace.step), len(pace.compute_ns)) == (0, 0)
