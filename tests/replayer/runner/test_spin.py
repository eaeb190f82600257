"""Taking up time: never less than asked for."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.spin import cycles_per_ns, spin_host, wait_until


def test_the_host_is_busy_for_as_long_as_asked():
    begin = time.perf_counter_ns()
    spin_host(200_000)
    assert time.perf_counter_ns() - begin >= 200_000


@pytest.mark.parametrize("nanoseconds", [-5, 0, 100_000, 3_000_000])
def test_a_moment_is_waited_for_and_one_that_is_over_is_not(nanoseconds):
    moment = time.perf_counter_ns() + nanoseconds
    wait_until(moment)
    assert time.perf_counter_ns() >= moment


def test_cycles_are_counted_between_two_events():
    """Twenty million cycles in 10 ms are two per nanosecond."""
    slept = []

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            slept.append("mark")

        def synchronize(self):
            pass

        def elapsed_time(self, _end):
            return 10.0

    cuda = SimpleNamespace(Event=Event, _sleep=slept.append)
    assert cycles_per_ns(SimpleNamespace(cuda=cuda)) == 2
    assert slept == [20_000_000, "mark", 20_000_000, "mark"]
