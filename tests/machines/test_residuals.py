"""Intervals of predicted times: learned from rows that were not fitted, put together along a path."""

from __future__ import annotations

import math

import pytest

import chakrakit as ck
from chakrakit.machines.residuals import (
    Contribution,
    Interval,
    difference,
    interval_of,
    residual_table,
)

LEAST_COVERED, LEAST_COUNTED = 0.80, 20
LARGE = ("kernel", "measured profile", "matmul", "large", "within", "h200")


def test_the_intervals_of_the_package_hold_what_was_measured():
    """Rows that were left out, by kind and by system; of fewer than twenty, chance decides."""
    coverage = residual_table().coverage
    judged = {name: share for name, (rows, share) in coverage.items() if rows >= LEAST_COUNTED}
    assert len(judged) >= 15
    assert {name: share for name, share in judged.items() if share < LEAST_COVERED} == {}


def test_a_group_with_few_rows_takes_the_wider_one():
    table = residual_table()
    assert table.spread(*LARGE[:5], "a card nobody measured") == table.spread(*LARGE[:5])
    assert table.spread("no such kind of row") is None


def width(found: Interval | None) -> float:
    assert found is not None
    return found.high_ns - found.low_ns


def test_equal_operations_share_one_error_and_different_ones_a_part_of_it():
    one = interval_of(1.0, [Contribution(LARGE, "a", 1.0)])
    equal = interval_of(1.0, [Contribution(LARGE, "a", 0.01)] * 100)
    different = interval_of(1.0, [Contribution(LARGE, str(i), 0.01) for i in range(100)])
    assert width(equal) == pytest.approx(width(one))
    shared = math.sqrt(residual_table().correlation)
    assert width(different) == pytest.approx(shared * width(one), rel=0.1)


def test_what_both_runs_have_cancels_in_their_difference():
    a = Interval(900.0, 1100.0, groups={"g": (1000.0, 0.1, 0.0, 0.1)})
    b = Interval(990.0, 1210.0, groups={"g": (1100.0, 0.1, 0.0, 0.1)})
    assert difference(a, b, 100.0) == pytest.approx((90.0, 110.0))


def test_a_simulation_and_its_analysis_say_the_interval_and_measured_times_have_none():
    traces = ck.generate(model="gpt3-125m", tp=2, seq=128, global_batch=1).traces
    done = ck.simulate(traces, "dgx-h100")
    low, high = done.summary.interval_ns
    assert 0 < low < high
    run = done.run()
    assert ck.analyze(run).footprint.interval_ns == (low, high)
    measured = ck.simulate(run, compute="measured", communication="measured").summary
    assert measured.interval_ns is None


def test_between_nodes_is_said_to_be_modelled():
    modelled = []
    for dp in (8, 16):
        traces = ck.generate(model="gpt3-125m", dp=dp, seq=128, global_batch=dp).traces
        modelled.append(ck.simulate(traces, "dgx-h100:2").summary.modelled)
    assert modelled == [False, True]


def test_served_figures_have_intervals_where_runs_of_the_engine_are_known():
    done = ck.serve("llama-3.1-8b", "dgx-h100", "poisson{rate=4,n=4,prompt=64,output=4}")
    low, high = done.intervals["tpot_ms"]["mean"]
    assert low < done.tpot_ms.mean < high
