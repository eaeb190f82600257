"""What linking says of the step: as recorded, as corrected, and without recording."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.step_facts import RankRecording, recording, steps_of


def test_the_first_of_two_steps_is_not_the_usual_one(recording, tmp_path):
    """It began while the device still worked for a step that nobody recorded."""
    recording.op("ProfilerStep#0", 0, 1_000)
    recording.op("aten::a", 10, 80)
    recording.launch(20, start=900, dur=10, corr=1)
    recording.op("ProfilerStep#1", 1_000, 200)
    recording.op("aten::b", 1_010, 100)
    recording.launch(1_020, start=1_030, dur=80, corr=2)
    _, report = link(recording.write(tmp_path))
    assert report.recorded_step_ns == 200_000


@pytest.fixture
def told(linked_rank):
    """Facts of a run of one rank, whose second step took 9 ms as recorded and 7 as corrected."""

    def ask(cost, unprofiled=0, second=False):
        steps = [
            {"step": 0, "period_ns": 20_000_000, "scheduled_period_ns": 20_000_000},
            {"step": 1, "period_ns": 9_000_000, "scheduled_period_ns": 7_000_000},
        ]
        report = msgspec.structs.replace(linked_rank().report, steps=steps)
        return recording({0: (RankRecording(cost, unprofiled, second), report)}, None)

    return ask


def test_times_as_recorded_are_not_corrected(told):
    found = told(None)
    assert (found.recorded_step_ns, found.step_ns, found.corrected) == (9_000_000, 9_000_000, "")


@pytest.mark.parametrize(
    ("cost", "second", "said"),
    [
        (Overhead(), False, "by the default model"),
        (Overhead(measured=True), False, "by its card's figures"),
        (Overhead(step_ns=5), False, "by the default model fitted to the un-profiled step"),
        (Overhead(measured=True), True, "by a second pass and its card's figures"),
    ],
)
def test_it_says_how_the_cost_was_taken_out(told, cost, second, said):
    found = told(cost, 6_500_000, second)
    assert (found.step_ns, found.unprofiled_step_ns) == (7_000_000, 6_500_000)
    assert found.corrected == said


def test_steps_of_a_trace_are_periods_of_what_works(slow_step, tmp_path):
    """From the step's begin to the end of its last kernel."""
    run, _ = link(slow_step.write(tmp_path), LinkOptions(as_recorded=True))
    assert steps_of(run.trace(0)) == {0: 660_000}
