"""No simulation goes below a plan's bound; its memory and computation are exact."""

from __future__ import annotations

from random import Random

import pytest

from chakrakit.exploration.bound import Bounds
from chakrakit.exploration.search.searcher import Searcher, objective_of
from chakrakit.machines import load_machine
from chakrakit.machines.device import Roofline
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.workloads.description import Lengths, Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generate, generated
from chakrakit.workloads.models import model_named
from support.random_plans import random_workload

MACHINES = ["dgx-h100:16", "ethernet-100g:128", "tpu-v5p:128"]


def even(seed: int) -> Workload:
    """A random workload whose ranks and micro-batches are alike, as a search's are."""
    drawn = random_workload(Random(seed))
    step = drawn.step.replace(lengths=Lengths(), imbalance=0)
    return drawn.replace(step=step, plan=drawn.plan.replace(strict=True))


def compute_ps(done: Simulation) -> float:
    return sum(r.compute_ns for r in done.summary.ranks) * 1e3


def holds(seed: int) -> None:
    workload, machine = even(seed), load_machine(MACHINES[seed % 3])
    bound = Bounds(machine, Roofline()).of(workload)
    made = generated(workload)
    done = simulate(made.traces(), machine, compute="roofline")
    assert 0 < bound.step_ps <= done.outcome.makespan_ps
    assert bound.memory_bytes == max(c.memory["total"] for c in dry_run(made).per_rank)
    assert bound.compute_ps == pytest.approx(compute_ps(done), rel=1e-9)
    searcher = Searcher(machine, "roofline", objective_of("step", machine, None))
    assert searcher.least(workload) <= done.makespan_ns * 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_random_plans(seed: int) -> None:
    holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3, 43, 20))
def test_many_random_plans(first: int) -> None:
    for seed in range(first, first + 20):
        holds(seed)


@pytest.mark.parametrize(
    ("plan", "share"),
    [
        (Plan(dp=4, tp=2, data="zero1"), 0.96),
        (Plan(dp=2, tp=2, pp=2, data="zero1"), 0.97),
        (Plan(tp=2, pp=4, schedule="interleaved", chunks=2), 0.97),
        (Plan(dp=8, data="fsdp"), 0.7),
    ],
)
def test_the_bound_is_near_where_networks_are_not_crowded(plan: Plan, share: float) -> None:
    model = model_named("llama3.1-8b").replace(layers=8)
    workload = Workload(model=model, plan=plan, step=Step(seq=2048, global_batch=16))
    machine = load_machine("dgx-h100")
    bound = Bounds(machine, Roofline()).of(workload)
    step = simulate(generate(workload), machine, compute="roofline").outcome.makespan_ps
    assert share <= bound.step_ps / step <= 1
