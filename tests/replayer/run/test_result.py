"""What a replay gave, from what its ranks wrote."""

from __future__ import annotations

import json

import pytest

from chakrakit.errors import FormatError
from chakrakit.replayer.run.result import SUMMARY, read_report

RANK = {"rank": 0, "recorded_rank": 0, "count": [9, 10], "time_ns": [80, 100], "stand_ins": []}


def outcome(rank, steps, **more):
    figures = {"rank": rank, "steps_ns": steps, "host_ns": steps, "cpu_ns": [1] * len(steps)}
    return {**figures, "kernel_ns": 7 * (rank + 1), "memory_bytes": 64, **more}


def report(folder, ranks, outcomes, **more):
    summary = {"mode": "full", "device": "cpu", "ranks": ranks, **more}
    (folder / SUMMARY).write_text(json.dumps(summary))
    for found in outcomes:
        (folder / f"rank_{found['rank']}.json").write_text(json.dumps(found))
    return read_report(folder, folder)


def test_an_iteration_takes_as_long_as_its_slowest_rank(tmp_path):
    ranks = [RANK, {**RANK, "rank": 1}]
    found = report(tmp_path, ranks, [outcome(0, [10, 50, 30]), outcome(1, [20, 40, 20])])
    assert found.iterations == 3
    assert (found.step_ns.median, found.step_ns.p10, found.step_ns.p90) == (30, 22, 46)
    assert found.kernel_ns == 14
    assert [r.step_ns.median for r in found.ranks] == [30, 20]
    assert found.recorded is None


def test_coverage_is_less_what_the_runner_could_not_do(tmp_path):
    """Nine of ten operators were planned and one of them was not possible; 80 of 100 ns, less 30."""
    lost = [{"name": "aten::x", "time_ns": 30, "why": "no such kernel"}]
    found = report(tmp_path, [RANK], [outcome(0, [10], not_covered=lost)])
    assert (found.coverage.count, found.coverage.time) == (0.8, 0.5)
    assert [(s.name, s.count, s.time_ns, s.why) for s in found.stand_ins] == [
        ("aten::x", 1, 30, "no such kernel")
    ]


def test_stand_ins_are_summed_over_ranks_with_the_longest_first(tmp_path):
    one = {"name": "a", "count": 2, "time_ns": 10}
    two = {"name": "b", "count": 1, "time_ns": 50}
    ranks = [{**RANK, "stand_ins": [one, two]}, {**RANK, "rank": 1, "stand_ins": [one]}]
    found = report(tmp_path, ranks, [outcome(0, [10]), outcome(1, [10])])
    assert [(s.name, s.count, s.time_ns) for s in found.stand_ins] == [("b", 1, 50), ("a", 4, 20)]


def test_without_times_an_operator_counts_as_much_as_another(tmp_path):
    found = report(tmp_path, [{**RANK, "time_ns": [0, 0]}], [outcome(0, [10])])
    assert (found.coverage.count, found.coverage.time) == (0.9, 0.9)
    nothing = report(tmp_path, [{**RANK, "count": [0, 0], "time_ns": [0, 0]}], [outcome(0, [10])])
    assert nothing.coverage.count == 1


def test_a_step_that_was_recorded_is_compared_with(tmp_path):
    original = [{"step_ns": 40, "kernel_ns": 0, "kernels": {}}]
    found = report(tmp_path, [RANK], [outcome(0, [50])], original=original)
    assert found.recorded is not None
    assert found.recorded.step_ns == 40


def test_a_rank_that_wrote_nothing_is_named(tmp_path):
    with pytest.raises(FormatError, match=r"rank_0.json.*is not there; was the replay run"):
        report(tmp_path, [RANK], [])
