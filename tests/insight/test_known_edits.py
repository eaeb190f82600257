"""Runs that differ by one known edit of their plan or machine: the first line of a comparison names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import chakrakit as ck
from chakrakit.insight import compare
from chakrakit.trace.sets import Run

STEP = {"model": "gpt3-125m", "layers": 4, "seq": 128}
PIPELINE = {"pp": 4, "dp": 2, "global_batch": 8}


def run_of_plan(fields: Mapping[str, Any], machine: str = "dgx-h100", **options: Any) -> Run:
    return ck.simulate(ck.generate(**{**STEP, **fields}).traces, machine, **options).run()


def test_the_difference_is_one_of_steps_as_the_times_beside_it():
    """A run of several steps takes several times as much longer."""
    runs = [run_of_plan({"steps": 3}, machine) for machine in ("dgx-h100", "dgx-a100")]
    found = compare(*runs)
    assert found.interval_ns is not None
    low, high = found.interval_ns
    assert low <= found.step.delta_ns <= high < 2 * found.step.delta_ns


def test_one_slow_rank_of_a_pipeline_is_named():
    """Two ranks do the same work, so that the run alone does not say which of them is the usual one."""
    plain, slow = (run_of_plan(PIPELINE, **more) for more in ({}, {"stragglers": {3: 1.5}}))
    first = compare(plain, slow).causes[0]
    assert (first.change, first.what.partition(":")[0]) == ("durations", "compute")
    assert first.what.endswith("rank 3 computes 1.50 times as long as before, most ranks 1.00")


def test_a_rank_is_odd_beside_what_most_ranks_changed_by():
    """All but one take twice as long, and that one as long as before."""
    ranks = range(8)
    plain, slow = (
        run_of_plan(PIPELINE, **more)
        for more in ({}, {"stragglers": {rank: 2.0 for rank in ranks if rank != 3}})
    )
    said = re.search(
        r"; rank 3 computes (\S+) .*, most ranks (\S+)$", compare(plain, slow).causes[0].what
    )
    assert said is not None
    assert [float(times) for times in said.groups()] == pytest.approx([1.0, 2.0], abs=0.03)


def test_another_schedule_is_no_other_work():
    """Stages hand each other layers: all ranks together compute as before, and wait longer."""
    fields = {**PIPELINE, "pp": 2, "dp": 1, "global_batch": 2}
    interleaved = run_of_plan({**fields, "schedule": "interleaved", "chunks": 2})
    found = compare(interleaved, run_of_plan(fields))
    assert found.causes[0].change == "waiting"
    assert found.causes[0].what == "waiting: bubble; schedule interleaved → 1f1b, chunks 2 → 1"
    assert sum(cause.delta_ns for cause in found.causes) == found.step.delta_ns


@pytest.mark.parametrize(
    ("fields", "edit", "said"),
    [
        ({"tp": 2}, {"matmul_dtype": "fp8"}, "matmul-dtype none → fp8"),
        ({"global_batch": 8, "micro_batch": 8}, {"micro_batch": 2}, "micro-batch 8 → 2"),
        ({}, {"model": "gpt3-350m"}, "model gpt3-125m → gpt3-350m"),
        ({}, {"dp": 2, "global_batch": 2, "seq": 64, "recompute": "full"}, "and 1 more"),
    ],
)
def test_what_two_workloads_differ_in_is_said_first(fields, edit, said):
    found = compare(run_of_plan(fields), run_of_plan({**fields, **edit}))
    assert found.causes[0].what.endswith(said)
    assert not any(said in cause.what for cause in found.causes[1:])
