"""What recording cost, as a recording shows it: the speed of its launches, what the tracer says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking.overhead import cost_seen, fit, recorded_twice

NONE = np.empty(0, np.int64)


def test_slow_launches_tell_of_a_dear_recording():
    fast = cost_seen(np.full(9, 5_000), operators=100, values=0, views=NONE)
    slow = cost_seen(np.full(9, 8_500), operators=100, values=0, views=NONE)
    assert (fast.launch_ns, fast.call_ns) == (0, 0)
    assert (slow.launch_ns, slow.call_ns) == (18_375, 6_125)
    assert fast.operator_ns == slow.operator_ns == 1_000


def test_the_observer_costs_by_what_it_writes():
    few = cost_seen(np.full(9, 8_000), operators=100, values=1_000, views=NONE)
    many = cost_seen(np.full(9, 8_000), operators=100, values=2_000, views=NONE)
    assert (few.observer_ns, many.observer_ns) == (13_200, 26_400)
    assert cost_seen(NONE, operators=10, values=10, views=NONE).observer_ns > 0


def test_slow_views_tell_of_an_observer_whose_file_is_missing():
    launches = np.full(9, 8_000)
    quick, slow = np.full(9, 1_200), np.full(9, 14_000)
    assert (recorded_twice(launches, quick), recorded_twice(launches, slow)) == (False, True)
    assert not recorded_twice(launches, NONE)
    assert not recorded_twice(NONE, slow)
    alone = cost_seen(launches, operators=100, values=0, views=quick)
    beside = cost_seen(launches, operators=100, values=0, views=slow)
    assert (alone.observer_ns, beside.observer_ns) == (0, 23_800)
    assert cost_seen(launches, operators=100, values=1_000, views=slow).observer_ns == 13_200


def test_a_step_that_the_device_bounds_leaves_the_cost_alone():
    assert fit(lambda factor: 100.0, target=80.0, now=100.0) == 1.0
    assert fit(lambda factor: 100.0, target=120.0, now=100.0) == 1.0


@pytest.mark.parametrize(("wanted", "factor"), [(80, 1.5), (100, 1.0), (120, 0.5), (50, 2.25)])
def test_the_factor_is_found_from_both_sides(wanted, factor):
    assert fit(lambda f: 140 - 40 * f, wanted, now=100) == pytest.approx(factor, abs=0.03)


def test_a_step_out_of_reach_is_approached_with_the_smallest_change():
    """From 2 on the device bounds the step: going further would only spoil the host."""
    assert fit(lambda f: max(140 - 40 * f, 60), target=10, now=100) == pytest.approx(2, abs=0.05)
