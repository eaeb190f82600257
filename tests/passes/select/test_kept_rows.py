"""Some rows of each rank; ranks that stay alike share a body."""

import numpy as np

from chakrakit import Binding, Run, Times, TraceBuilder, TraceSet
from chakrakit.passes.select import with_rows


def body():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1)
    b = t.comp("b", duration_ns=2, deps=[a])
    t.comp("c", duration_ns=3, deps=[b])
    return t.build()


BINDINGS = {r: Binding(0) for r in range(3)}


def test_ranks_with_equal_rows_share_a_body_and_order_is_bridged():
    ends, first = np.array([True, False, True]), np.array([True, False, False])
    kept = with_rows(TraceSet([body()], BINDINGS), {0: ends, 1: first, 2: ends.copy()})
    assert kept.body_count == 2
    assert [kept.trace(r).names.to_pylist() for r in range(3)] == [["a", "c"], ["a"], ["a", "c"]]
    assert kept.trace(0).edges.src.tolist() == [0]  # c still waits for a


def test_all_rows_are_the_same_set():
    traces = TraceSet([body()], BINDINGS)
    assert with_rows(traces, dict.fromkeys(range(3), np.ones(3, np.bool_))) is traces


def test_a_run_keeps_the_times_of_what_is_left():
    times = [Times(np.array([0, 1, 3]), np.array([1, 3, 6]))]
    run = Run([body()], BINDINGS, times=times, timing=dict.fromkeys(range(3), 0))
    last = dict.fromkeys(range(3), np.array([False, False, True]))
    kept = with_rows(run, last)
    assert isinstance(kept, Run)
    assert (kept.start(1).tolist(), kept.end(1).tolist()) == ([3], [6])
