"""Taking up time, by a clock that the test turns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner import spin


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by 1 µs with every look, and by as long as somebody sleeps."""
    state = SimpleNamespace(now=0, slept=[])

    def look():
        state.now += 1_000
        return state.now

    def sleep(seconds):
        state.slept.append(seconds)
        state.now += int(seconds * 1e9)

    monkeypatch.setattr(spin.time, "perf_counter_ns", look)
    monkeypatch.setattr(spin.time, "sleep", sleep)
    return state


def test_a_busy_thread_looks_at_the_clock_until_the_time_is_over(clock):
    spin.spin_host(5_000)
    assert (clock.now, clock.slept) == (6_000, [])


def test_a_long_wait_is_slept_but_for_its_end(clock):
    spin.wait_until(10_000_000)
    assert clock.slept[0] == pytest.approx(0.008, abs=1e-5)
    assert 10_000_000 <= clock.now < 10_010_000


def test_a_moment_that_is_over_is_not_waited_for(clock):
    clock.now = 99_000
    spin.wait_until(50_000)
    assert clock.slept == []


def test_cycles_are_counted_against_the_device_s_own_clock():
    """20 million cycles in 10 ms are two per nanosecond."""
    event = SimpleNamespace(
        record=lambda: None, synchronize=lambda: None, elapsed_time=lambda other: 10.0
    )
    cuda = SimpleNamespace(Event=lambda enable_timing: event, _sleep=lambda cycles: None)
    assert spin.cycles_per_ns(SimpleNamespace(cuda=cuda)) == 2.0
