"""Where the step of a simulated plan goes, in parts that add up to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.exploration.search.searcher import parts_of, shares, why
from chakrakit.simulator.engine.program import read_program
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named


def test_parts_add_up_to_the_step_and_tell_what_is_worse() -> None:
    model = model_named("llama3.1-8b").replace(layers=4)
    step = Step(seq=1024, global_batch=8)
    found = []
    for plan in (Plan(dp=8, data="zero1"), Plan(dp=2, pp=4, data="zero1")):
        made = simulate(
            generate(Workload(model=model, plan=plan, step=step)), "dgx-h100", compute="roofline"
        )
        parts = parts_of(made.outcome)
        assert sum(parts.values()) == pytest.approx(made.makespan_ns)
        found.append((made.makespan_ns, parts))
    (_, flat), (_, deep) = found
    assert deep["bubble"] > flat["bubble"]
    told = why(sum(deep.values()), deep, flat)
    assert "bubble +" in told
    assert "exposed dp −" in told


def test_what_is_covered_counts_for_compute_and_then_for_groups_by_name() -> None:
    """Ten ns of compute; communication of a from 5 to 20 and of b from 5 to 30; the end at 40."""
    t = ck.TraceBuilder()
    compute = t.comp("w", stream=0)
    for name in "ba":
        t.collective("c", ck.CollectiveType.ALL_REDUCE, 8, pg_name=name, stream=ord(name))
    t.comp("host", is_cpu_op=True, deps=[compute])
    program = read_program(t.build())
    outcome = SimpleNamespace(
        classes=SimpleNamespace(rank=np.array([0, 0]), count=1),
        program=lambda c: program,
        rows=lambda c: slice(0, 4),
        start=np.array([0, 5, 5, 30]) * 1000,
        end=np.array([10, 30, 20, 40]) * 1000,
        makespan_ps=40_000,
    )
    assert parts_of(outcome) == {"compute": 10, "exposed a": 10, "exposed b": 10, "bubble": 10}


def test_shares_and_differences_in_words() -> None:
    best = {"compute": 80e6, "exposed dp": 20e6}
    assert shares(100e6, best) == "compute 80.0 %, exposed dp 20.0 %"
    worse = {"compute": 80e6, "exposed dp": 10e6, "bubble": 30e6}
    assert why(120e6, worse, best) == "20.0 % longer: bubble +30.0 ms, exposed dp −10.0 ms"
    assert why(99e6, {"compute": 80e6, "exposed dp": 19.9e6}, best) == (
        "1.0 % shorter; no part differs much"
    )
