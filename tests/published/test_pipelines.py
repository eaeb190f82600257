"""Pipelines by order and by readiness: formulas they must meet, and limits that nothing may break."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from chakrakit.published.planning.pipelines import RULES, SPLITS, Pipeline, job_of, plan_of, seconds
from chakrakit.simulator.results import simulate

PIPELINE = Pipeline(stages=4, batches=8, limit=4, source="task", spread=0.3, transfer=0.0)


def test_1f1b_takes_as_long_as_the_formula_says():
    calm = replace(PIPELINE, spread=0.0)
    expected = (calm.batches + calm.stages - 1) * 3e-3  # a forward of 1 ms and a backward of 2
    assert seconds(calm, "1f1b+0", "whole", False, 0) == pytest.approx(expected, rel=1e-4)


def test_a_plan_that_memory_does_not_allow_takes_forever():
    assert seconds(PIPELINE, "gpipe", "whole", False, 0) == float("inf")
    assert seconds(replace(PIPELINE, limit=8), "gpipe", "whole", False, 0) < 1


@pytest.mark.parametrize("name", ["1f1b+0", "1f1b+2", *RULES])
@pytest.mark.parametrize("ready", [False, True])
def test_no_way_exceeds_the_memory_or_skips_a_task(name, ready):
    split = "whole"
    plan = plan_of(replace(PIPELINE, spread=0.0), name, split)
    traces, machine, options = job_of(PIPELINE, split, name, plan, ready, 3)
    run = simulate(traces, machine, options=options).run("summary")
    for stage, trace in run:
        names = trace.nodes.column("name").to_pylist()
        times = dict(zip(names, zip(run.start(stage), run.end(stage), strict=True), strict=True))
        spans = [(times[f"F{m}"][0], times[f"B{m}"][1]) for m in range(PIPELINE.batches)]
        assert all(sum(a <= at < b for a, b in spans) <= PIPELINE.limit for at, _ in spans)
        tasks = sorted(times[n] for n in names if n[0] in "FB" and n[1:].isdigit())
        assert len(tasks) == PIPELINE.batches * len(SPLITS[split])
        assert all(a[1] <= b[0] for a, b in pairwise(tasks))
