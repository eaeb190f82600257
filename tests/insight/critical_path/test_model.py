"""A run as one graph: scheduled again it is itself, and calls that meet end together."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.critical_path.model import model_of, per_rank
from chakrakit.trace.sets import Times, run_of


def test_the_ranks_rows_come_one_after_another_and_then_one_row_per_meeting(two_ranks):
    model = model_of(two_ranks)
    assert (model.offset, model.rows, model.n) == ({0: 0, 1: 3}, 6, 7)
    assert model.makespan == 55_000
    assert {r: v.tolist() for r, v in per_rank(model, model.end).items()} == {
        0: [10_000, 50_000, 55_000],
        1: [30_000, 50_000, 55_000],
    }


def test_a_transfer_is_scaled_with_its_calls_and_then_put_back(two_ranks):
    model = model_of(two_ranks)
    factors = np.ones(model.n)
    factors[[1, 4]] = 0.5  # both calls of the sum: 20 µs become 10
    assert model.makespan_with(factors) == 45_000
    assert model.makespan_with(np.ones(model.n)) == 55_000


def test_slack_is_how_much_later_a_row_could_end(two_ranks):
    assert model_of(two_ranks).slack[:6].tolist() == [20_000, 0, 0, 0, 0, 0]


def test_a_receive_ends_its_transfer_after_both_ends_have_begun():
    a, b = ck.TraceBuilder(), ck.TraceBuilder()
    first = a.comp("work", stream=1, duration_ns=30)
    a.send("s", 0, 1, 64, stream=2, deps=[first])
    b.recv("r", 0, 1, 64, stream=2)
    times = {
        0: Times(np.array([0, 30]), np.array([30, 31])),
        1: Times(np.array([0]), np.array([50])),
    }
    model = model_of(run_of(ck.TraceSet([a.build(), b.build()]), times, tick_ps=1000))
    assert model.makespan == 50
    sooner = np.ones(model.n)
    sooner[0] = 0.5  # the sender is ready at 15, and the transfer of 20 ends at 35
    assert model.makespan_with(sooner) == 35


def test_a_run_without_rows_takes_no_time():
    run = run_of(
        ck.TraceSet([ck.Trace.from_columns({"name": []})]), {0: Times(*np.zeros((2, 0), int))}
    )
    model = model_of(run)
    assert (model.n, model.makespan, model.makespan_with(np.ones(0))) == (0, 0, 0)


def test_host_gaps_are_time_of_the_row_before_which_they_are():
    """Two operators with 5 between them; twice as slow, the second has a gap of 10."""
    t = ck.TraceBuilder()
    a = t.comp("a", is_cpu_op=True, tid=1, duration_ns=10)
    b = t.comp("b", is_cpu_op=True, tid=1, duration_ns=10)
    t.edge(a, b, ck.EdgeKind.THREAD, lag_ns=5)
    times = Times(np.array([0, 15]), np.array([10, 25]))
    model = model_of(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000))
    assert model.makespan == 25
    assert model.makespan_with(np.array([1.0, 2.0])) == pytest.approx(10 + 10 + 20)
