"""Steps as the trace marks them, or where the same work repeats."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight import steps
from chakrakit.insight.step_times import RankStep, join_steps
from chakrakit.trace.sets import Run, Times, run_of


def test_marked_steps_have_the_period_of_the_device(linked):
    run_steps = steps(linked("gpt2_124m_b8_s1024", two_passes=True))
    assert run_steps.found == "marked"
    assert [round(s.period_ns / 1e6, 1) for s in run_steps.steps] == [44.9, 44.8]


def repeated(names: list[str], times: int) -> Run:
    t = ck.TraceBuilder()
    last: list[int] = []
    for name in names * times:
        last = [t.comp(name, stream=7, duration_ns=10, deps=last)]
    n = len(names) * times
    start = np.arange(n) * 10
    return run_of(ck.TraceSet([t.build()]), {0: Times(start, start + 10)}, tick_ps=1000)


def test_unmarked_steps_are_found_where_work_repeats():
    """Five steps of forward, a loop of four layers twice over, and an update."""
    names = ["embed", *["attn", "mlp", "norm", "add"] * 2, "loss", "update"]
    run_steps = steps(repeated(names, 5))
    assert run_steps.found == "repeating"
    assert len(run_steps.steps) == 5
    assert run_steps.median_ns == 110


def test_a_run_without_repetition_is_one_step():
    run_steps = steps(repeated(["a", "b", "c", "d", "e"], 1))
    assert (run_steps.found, run_steps.median_ns) == ("none", 50)


def test_of_each_step_the_slowest_rank_counts_and_the_first_is_left_out():
    parts = [
        ("marked", [RankStep(rank, n, 0, 0, period) for n, period in enumerate(periods)])
        for rank, periods in enumerate([[99, 10, 20], [5, 30, 15]])
    ]
    run_steps = join_steps(parts, 1000)
    assert (run_steps.found, len(run_steps.steps)) == ("marked", 6)
    assert run_steps.median_ns == 25  # of 30 and 20


def test_no_steps_are_the_whole_span():
    assert join_steps([("none", [])], 77).median_ns == 77
