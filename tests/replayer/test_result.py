"""What a replay gave: a report over all ranks."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.errors import FormatError
from chakrakit.replayer import result
from chakrakit.replayer.result import (
    SUMMARY,
    IterationSpread,
    Original,
    PlanSummary,
    Replaced,
    Share,
    Summary,
    read_report,
)
from chakrakit.trace.sets import RecordedStep


@pytest.fixture
def folder(tmp_path):
    """Two ranks of ten operators each, run twice; rank 1 could not do one of them."""
    ranks = [PlanSummary(r, r, [10, 10], [1_000, 1_000], [Replaced("x", 2, 40)]) for r in (0, 1)]
    step = RecordedStep(step_ns=90, unprofiled_step_ns=80)
    original = [Original(100, 50, {"k": 1})]
    summary = Summary("full", "cpu", ranks, step, original)
    (tmp_path / SUMMARY).write_bytes(msgspec.json.encode(summary))
    lost = [{"name": "aten::mm", "time_ns": 100, "why": "no room"}]
    for rank, steps in enumerate(([100, 300], [200, 250])):
        found = {
            "rank": rank,
            "steps_ns": steps,
            "host_ns": [10, 20],
            "cpu_ns": [5, 5],
            "kernel_ns": 7 + rank,
            "not_covered": lost * rank,
            "kernels": {"k": [1, 50]},
        }
        (tmp_path / f"rank_{rank}.json").write_bytes(msgspec.json.encode(found))
    return tmp_path


def test_steps_are_those_of_the_slowest_rank_of_each_iteration(folder):
    report = read_report(folder, folder)
    assert report.step_ns == IterationSpread(250, 210, 290)  # of 200 and 300
    assert (report.iterations, report.kernel_ns) == (2, 8)
    assert [(r.host_ns, r.step_ns.median) for r in report.ranks] == [(15, 200), (15, 225)]


def test_coverage_counts_what_could_not_be_done_after_all(folder):
    report = read_report(folder, folder)
    assert report.coverage == Share(19 / 20, 1_900 / 2_000)
    assert report.ranks[1].coverage == Share(0.9, 0.9)
    assert report.stand_ins == [Replaced("aten::mm", 1, 100, "no room"), Replaced("x", 4, 80)]


def test_it_is_compared_with_the_step_that_was_timed_without_recording(folder):
    report = read_report(folder, folder)
    assert (report.recorded.step_ns, report.recorded.step_change) == (80, 250 / 80 - 1)
    assert report.recorded.kernels_equal
    assert report.recording.step_ns == 90


def test_a_result_that_is_not_there_is_named(folder):
    (folder / "rank_1.json").unlink()
    with pytest.raises(FormatError, match="is not there; was the replay run") as error:
        read_report(folder, folder)
    assert error.value.path == str(folder / "rank_1.json")


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([], IterationSpread(0, 0, 0)),
        ([7], IterationSpread(7, 7, 7)),
        (list(range(101)), IterationSpread(50, 10, 90)),
    ],
)
def test_spreads_are_medians_and_tenths(values, spread):
    assert result._spread(values) == spread


def test_all_of_nothing_is_all_of_it():
    nothing = PlanSummary(0, 0, [0, 0], [0, 0], [])
    assert result._coverage([(nothing, result._Outcome(0, [], [], []))]) == Share(1.0, 1.0)
