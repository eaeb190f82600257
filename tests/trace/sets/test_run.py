"""A Run is a TraceSet with times, from the nodes themselves or from timing classes."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import Binding, CollectiveType, Groups, Run, Times, Trace, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.trace.sets import run_of


def body(n: int = 2) -> Trace:
    t = TraceBuilder()
    for i in range(n):
        t.comp(f"op{i}", duration_ns=1500, start_ns=2000 * i)
    return t.build()


def times(*start: int, **more: list[int]) -> Times:
    begin = np.array(start, np.int64)
    return Times(begin, begin + 10, **{k: np.array(v, np.int32) for k, v in more.items()})


def test_times_come_from_the_nodes_when_nothing_else_is_given() -> None:
    run = Run([body()], {3: Binding(0, scale=2.0)})
    assert run.start(3).tolist() == [0, 2000]
    assert run.end(3).tolist() == [3000, 5000]
    assert (run.tick_ps, run.span, run.makespan_ns) == (1000, (0, 5000), 5000.0)
    assert run.card.kind == "run"


def test_ranks_with_equal_times_share_a_class() -> None:
    traces = TraceSet([body()], {r: Binding(0) for r in range(4)})
    given = {0: times(0, 5), 1: times(0, 5), 2: times(1, 5), 3: times(0, 5, binding_rank=[-1, 2])}
    run = run_of(traces, given, tick_ps=1)
    assert (len(run.times or ()), run.timing) == (3, {0: 0, 1: 0, 2: 1, 3: 2})
    assert run.times_of(3).binding_rank.tolist() == [-1, 2]
    assert run.tick_ps == 1
    assert run.select_ranks([2]).start(2).tolist() == [1, 5]


def test_collectives_have_the_times_of_the_run() -> None:
    """Two ranks that arrive at 3 and 5 ns and leave together at 9; the nodes themselves have no times."""
    t = TraceBuilder()
    t.comp("before")
    t.collective("sum", CollectiveType.ALL_REDUCE, 8)
    traces = TraceSet([t.build()] * 2, groups=Groups({"0": [0, 1]}))
    ends = np.array([2000, 9000], np.int64)
    given = {rank: Times(np.array([0, at], np.int64), ends) for rank, at in ((0, 3000), (1, 5000))}
    found = run_of(traces, given, tick_ps=1).collectives
    assert found.calls.select(["rank", "start_ns", "end_ns"]).to_pylist() == [
        {"rank": 0, "start_ns": 3, "end_ns": 9},
        {"rank": 1, "start_ns": 5, "end_ns": 9},
    ]
    (instance,) = found.instances.to_pylist()
    assert (instance["arrival_ns"], instance["transfer_ns"]) == (5, 4)
    assert traces.collectives.instances["arrival_ns"].to_pylist() == [0]


def test_times_are_shown_by_their_number_and_span() -> None:
    assert repr(times(0, 2000)) == "Times(2 nodes, ticks 0 to 2,010)"
    assert repr(times()) == "Times(no nodes)"


def test_a_ranks_own_file_has_its_times_in_nanoseconds() -> None:
    run = run_of(TraceSet([body()]), {0: times(1_000_000, 2_345_678)}, tick_ps=1)
    trace = run.timed_trace(0)
    assert trace.start_ns.tolist() == [1000, 2345]
    assert trace.column("start_time_micros").tolist() == [1, 2]
    assert trace.has("start_time_ns").tolist() == [False, True]
    assert run_of(TraceSet([body(1)]), {0: times(0)}).timed_trace(0).is_timed
    with pytest.raises(TraceError, match="row 0 begins before 0; the times are damaged"):
        run_of(TraceSet([body()]), {0: times(-5, 2)}).timed_trace(0)


def test_rows_that_did_not_run_cannot_be_written_to_a_ranks_own_file() -> None:
    run = run_of(TraceSet([body()]), {0: Times(np.array([-1, 1_500]), np.array([-1, 2_500]))})
    with pytest.raises(TraceError, match=r"did not run.*write the run as a directory"):
        run.timed_trace(0)


def test_collectives_that_ranks_begin_in_different_orders_keep_their_numbers() -> None:
    """Nothing orders the two on a rank; by their starts alone, a sum would meet a gather."""
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, 64)
    t.collective("gather", CollectiveType.ALL_GATHER, 64)
    traces = TraceSet([t.build()], {r: Binding(0) for r in (0, 1)})
    run = run_of(traces, {0: times(0, 5), 1: times(7, 0)})
    assert run.timed_trace(1).column("comm_seq").tolist() == [0, 1]
    assert not run.timed_trace(0).has("comm_seq").any()
    timed = TraceSet([run.timed_body(0), run.timed_body(1)])
    calls = timed.collectives.calls.to_pylist()
    assert all(c["row"] == c["instance"] for c in calls)


def test_causes_on_ranks_that_are_not_here_are_not_known() -> None:
    traces = TraceSet([body()], {r: Binding(0) for r in (0, 1)})
    waited = times(0, 5, binding_row=[-1, 1], binding_rank=[-1, 1])
    run = run_of(traces, {0: waited, 1: times(0, 5)})
    assert run.times_of(0).binding_row.tolist() == [-1, 1]
    assert run.select_ranks([0]).times_of(0).binding_row.tolist() == [-1, -1]


@pytest.mark.parametrize("row", [2, 2**31 - 1])
@pytest.mark.parametrize("rank", [-1, 0, 1, -(2**31)])
def test_a_cause_beyond_the_last_row_is_refused(row: int, rank: int) -> None:
    traces = TraceSet([body()], {r: Binding(0) for r in (0, 1)})
    damaged = times(0, 5, binding_row=[-1, row], binding_rank=[-1, rank])
    run = run_of(traces, {0: damaged, 1: times(0, 5)})
    with pytest.raises(TraceError, match=f"row 1 waited for row {row} of rank {max(rank, 0)}"):
        run.times_of(0)


def test_times_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TraceError, match="different lengths"):
        Times(np.zeros(2, np.int64), np.zeros(3, np.int64))
    with pytest.raises(TraceError, match="timing class 5 of 1"):
        Run([body()], times=[times(0, 1)], timing={0: 5})
    with pytest.raises(TraceError, match="timing class -1 of 1"):
        Run([body()], times=[times(0, 1)], timing={0: -1})
    with pytest.raises(TraceError, match="every rank"):
        Run([body()], times=[times(0, 1)], timing={1: 0})
    with pytest.raises(TraceError, match="2 nodes and times for 3"):
        Run([body()], times=[times(0, 1, 2)]).start(0)
    with pytest.raises(TraceError, match="rank 0 has no times"):
        run_of(TraceSet([body()]), {})
    with pytest.raises(TraceError, match="no rank 9"):
        Run([body()]).start(9)


def test_a_run_without_nodes_has_no_span() -> None:
    assert Run([Trace.from_columns({"name": []})]).span == (0, 0)


def test_nanoseconds_that_no_clock_shows_are_refused():
    run = run_of(TraceSet([body()]), {0: times(0, 1 << 62)}, tick_ps=1000)
    with pytest.raises(TraceError, match="no clock shows"):
        run.times_of(0)


@pytest.mark.parametrize(("ticks", "tick_ps"), [(10**10, 10**15), (1 << 62, 2), (-(10**13), 10**6)])
def test_times_whose_picoseconds_would_wrap_are_refused(ticks, tick_ps):
    run = run_of(TraceSet([body()]), {0: times(min(ticks, 0), ticks)}, tick_ps=tick_ps)
    with pytest.raises(TraceError, match=r"50 days in all; check tick_ps in card\.json"):
        run.times_of(0)
