"""What a replay gave: a report over all ranks."""

from __future__ import annotations

import json

import msgspec
import pytest

from chakrakit.errors import ChakraError, FormatError
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


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("rank_1.json", {"rank": 0}, "is of rank 0, and not of rank 1"),
        ("rank_1.json", {"steps_ns": [-1]}, ">= 0"),
        ("rank_1.json", {"end": [1 << 70]}, "start|end"),
        ("rank_1.json", {"kernels": {"k": [1 << 62, 1]}}, "<= 1099511627776"),
        ("rank_1.json", {"not_covered": [{"name": "x"}]}, "time_ns"),
        ("rank_1.json", {"not_covered": [{"name": "x", "time_ns": 1, "why": ""}] * 11}, "11 stand-ins"),
        (SUMMARY, {"original": [{"step_ns": -5, "kernel_ns": 0, "kernels": {}}]}, ">= 0"),
    ],
)  # fmt: skip
def test_what_ranks_wrote_is_not_trusted(folder, name, change, said):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ChakraError, match=said):
        read_report(folder, folder)


def test_a_stand_in_is_counted_and_not_made_so_many_times(folder):
    summary = msgspec.json.decode((folder / SUMMARY).read_bytes())
    summary["ranks"][0]["stand_ins"] = [{"name": "x", "count": 1 << 40, "time_ns": 40}]
    (folder / SUMMARY).write_bytes(msgspec.json.encode(summary))
    assert Replaced("x", (1 << 40) + 2, 80) in read_report(folder, folder).stand_ins


def test_more_planned_than_recorded_is_refused(folder):
    summary = msgspec.json.decode((folder / SUMMARY).read_bytes())
    summary["ranks"][0]["count"] = [11, 10]
    (folder / SUMMARY).write_bytes(msgspec.json.encode(summary))
    with pytest.raises(FormatError, match="more was planned than recorded"):
        read_report(folder, folder)


def test_walls_that_nobody_speaks_of_did_not_stand(folder):
    assert "any file" in read_report(folder, folder).warning
