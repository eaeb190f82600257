"""What recording costs, from a small operator timed with and without."""

import pytest

from chakrakit.sources.pytorch.recorder import profiler


@pytest.fixture
def timed(monkeypatch):
    """Probes answer what they are told, in ns per operator."""

    def say(**answers):
        monkeypatch.setattr(profiler, "probe", lambda how, shapes=False: answers[how])

    return say


def test_costs_are_what_recording_adds(timed):
    """Of the 6,000 ns that a launch takes longer, 500 are the operator's and the rest the launch's."""
    timed(kineto={"host": 1_500, "device": 9_000}, observer={"host": 4_000})
    assert profiler.measure_overhead({"host": 1_000, "device": 3_000}) == {
        "operator_ns": 500,
        "observer_ns": 2_500,
        "launch_ns": 5_500,
        "call_ns": 1_833,
    }


def test_without_a_device_launches_cost_nothing(timed):
    timed(kineto={"host": 1_500}, observer={"host": 4_000})
    assert profiler.measure_overhead({"host": 1_000})["launch_ns"] == 0


def test_a_disturbed_probe_never_makes_recording_free_time(timed):
    timed(kineto={"host": 900}, observer={"host": 800})
    assert set(profiler.measure_overhead({"host": 1_000}).values()) == {0}


def test_a_probe_takes_the_median_of_its_runs(monkeypatch):
    """Three runs of 2,000 operators take 4, 20 and 6 ms: the disturbed one does not count."""
    pytest.importorskip("torch")
    clock = iter([0, 4_000_000, 0, 20_000_000, 0, 6_000_000])
    monkeypatch.setattr(profiler.time, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(profiler, "_many", lambda tensor: None)
    assert profiler._timed(None, None, False) == 3_000
