"""How long steps take: between ends of the device's work, or by the host's ranges."""

from __future__ import annotations

import pytest

from chakrakit.sources.pytorch.linking.report import steady_period, step_periods


@pytest.fixture
def two_steps(recording):
    """Kernels of before, of step 3 and of step 4 end at 10, 60 and 90 µs."""
    recording.kernel("before", 0, 10, corr=99)
    recording.op("ProfilerStep#3", 5, 35)
    recording.launch(15, start=45, dur=15, corr=1)
    recording.op("ProfilerStep#4", 41, 29)
    recording.launch(50, start=65, dur=25, corr=2)
    return recording.link()


def test_a_period_lasts_from_one_end_of_the_devices_work_to_the_next(two_steps):
    """Scheduled times twice as long as the recorded ones give periods twice as long."""
    line = two_steps.line
    assert step_periods(two_steps, 2 * line.start, 2 * line.end) == [
        {"step": 3, "measured_ns": 35_000, "period_ns": 50_000, "scheduled_period_ns": 100_000},
        {"step": 4, "measured_ns": 29_000, "period_ns": 30_000, "scheduled_period_ns": 60_000},
    ]


def test_the_steady_period_is_the_last_one(two_steps):
    assert steady_period(two_steps) == 30_000


def test_without_a_device_a_period_ends_with_what_the_host_computes(recording):
    recording.op("ProfilerStep#0", 0, 50)
    recording.op("aten::mm", 10, 30)
    rank = recording.link()
    end = rank.line.end + 5_000
    assert step_periods(rank, rank.line.start, end) == [
        {"step": 0, "measured_ns": 50_000, "period_ns": 40_000, "scheduled_period_ns": 45_000}
    ]


def test_a_step_that_only_finds_its_loader_empty_is_none(recording):
    """Products end at 40 and 90; the profiler's third step asks the loader, which copies, in vain."""
    for step, start in enumerate((0, 50, 100)):
        recording.op(f"ProfilerStep#{step}", start, 48)
        recording.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 1, 20)
        recording.op("aten::copy_", start + 5, 5)
        if step < 2:
            recording.op("aten::mm", start + 30, 10)
    rank = recording.link()
    steps = step_periods(rank, rank.line.start, rank.line.end)
    assert [(s["step"], s["period_ns"]) for s in steps] == [(0, 40_000), (1, 50_000)]


def test_where_nothing_computes_the_ranges_of_the_host_count(recording):
    recording.op("ProfilerStep#0", 0, 50)
    rank = recording.link()
    (step,) = step_periods(rank, rank.line.start, rank.line.end + 5_000)
    assert step == {"step": 0, "measured_ns": 50_000, "scheduled_ns": 55_000}


def test_where_no_step_is_marked_there_is_no_period(recording):
    recording.op("aten::mm", 10, 30)
    assert steady_period(recording.link()) == 0
