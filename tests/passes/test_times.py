"""Times in nodes: own times written where they belong, a run's put into its nodes."""

import numpy as np

from chakrakit import Binding, CollectiveType, Run, Times, TraceBuilder, TraceSet
from chakrakit.passes.base import with_own_ns, with_run_times


def timed(**fields):
    t = TraceBuilder()
    t.comp("host", is_cpu_op=True, tid=1, start_time_ns=0, duration_ns=1500, **fields)
    t.comp("kernel", stream=7, start_time_ns=100, duration_ns=2500)
    return t.build()


def test_a_kernels_duration_is_its_own_time():
    changed = with_own_ns(timed(), np.array([1500, 4000]))
    assert changed.duration_ns.tolist() == [1500, 4000]
    assert "own_ns" not in changed.table.column_names


def test_a_host_row_keeps_its_duration_and_says_its_own_time_beside_it():
    """What ran inside it and what it waited for is in the duration."""
    changed = with_own_ns(timed(), np.array([200, 2500]))
    assert changed.duration_ns.tolist() == [1500, 2500]
    assert changed.own_ns.tolist() == [200, 2500]


def test_communication_that_took_whole_microseconds_keeps_its_duration_too():
    """Its microseconds say its own time from then on, so its nanoseconds have to say the duration."""
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, 64, start_time_ns=1, duration_ns=1000)
    t.comp("kernel", stream=7, start_time_ns=1001, duration_ns=700)
    changed = with_own_ns(t.build(), np.array([500, 1000]))
    assert changed.duration_ns.tolist() == [1000, 1000]
    assert changed.own_ns.tolist() == [500, 1000]


def test_nothing_changed_is_the_same_trace():
    trace = timed()
    assert with_own_ns(trace, trace.own_ns) is trace


def test_no_time_is_below_zero():
    assert with_own_ns(timed(), np.array([1500, -7])).own_ns.tolist() == [1500, 0]


def test_a_runs_times_go_into_the_nodes_and_ranks_alike_share_them():
    body = TraceBuilder()
    body.comp("mm", duration_ns=10)
    times = [Times(np.array([5]), np.array([30])), Times(np.array([0]), np.array([7]))]
    bindings = {r: Binding(0) for r in range(3)}
    run = Run([body.build()], bindings, times=times, timing={0: 0, 1: 1, 2: 0})
    settled = with_run_times(run)
    assert [settled.trace(r).duration_ns.tolist() for r in range(3)] == [[25], [7], [25]]
    assert settled.body_count == 2


def test_a_rank_that_runs_slower_has_longer_nodes():
    body = TraceBuilder()
    body.comp("mm", duration_ns=10)
    traces = TraceSet([body.build()], {0: Binding(0), 1: Binding(0, scale=3.0)})
    settled = with_run_times(traces)
    assert [settled.trace(r).duration_ns.tolist() for r in (0, 1)] == [[10], [30]]
    assert settled.bindings[1].scale == 1.0


def test_plain_traces_stay_as_they_are():
    traces = TraceSet([timed()], {0: Binding(0)})
    assert with_run_times(traces) is traces
