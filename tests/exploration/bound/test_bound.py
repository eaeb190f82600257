"""No simulation goes below a plan's bound; its memory and computation are exact."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from chakrakit.exploration.bound import Bounds
from chakrakit.exploration.search.searcher import Searcher, objective_of
from chakrakit.machines import load_machine
from chakrakit.machines.device import Roofline, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.workloads.description import Lengths, Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generate, generated
from chakrakit.workloads.models import model_named
from support.random_plans import random_workload

MACHINES = ["dgx-h100:16", "ethernet-100g:128", "tpu-v5p:128", "gb200-nvl72:2"]


def even(seed: int) -> Workload:
    """A random workload whose ranks and micro-batches are alike, as a search's are."""
    drawn = random_workload(Random(seed))
    step = drawn.step.replace(lengths=Lengths(), imbalance=0)
    return drawn.replace(step=step, plan=drawn.plan.replace(strict=True))


def compute_ps(done: Simulation) -> float:
    return sum(r.compute_ns for r in done.summary.ranks) * 1e3


def undisturbed(machine: Machine) -> Machine:
    """The machine if communication did not slow down the computation beside it."""
    devices = tuple(structs.replace(d, comm_slowdown=0.0) for d in machine.devices)
    return replace(machine, devices=devices)


def holds(seed: int, compute: str = "roofline") -> None:
    workload, machine = even(seed), load_machine(MACHINES[seed % len(MACHINES)])
    made = generated(workload)
    bound = Bounds(machine, work_model(compute)).of(workload)
    done = simulate(made.traces(), machine, compute=compute)
    assert 0 < bound.step_ps <= done.outcome.makespan_ps
    assert bound.memory_bytes == max(c.memory["total"] for c in dry_run(made).per_rank)
    assert bound.compute_ps <= compute_ps(done) * (1 + 1e-9)
    searcher = Searcher(machine, compute, objective_of("step", machine, None))
    assert searcher.least(workload) <= done.makespan_ns * 1e-9
    alone = simulate(made.traces(), undisturbed(machine), compute=compute)
    assert bound.compute_ps == pytest.approx(compute_ps(alone), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("compute", ["roofline", "auto"])
def test_random_plans(seed: int, compute: str) -> None:
    holds(seed, compute)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3, 43, 20))
def test_many_random_plans(first: int) -> None:
    for seed in range(first, first + 20):
        holds(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "share", "slowed"),
    [
        (Plan(dp=4, tp=2, data="zero1"), 0.96, 0.95),
        (Plan(dp=2, tp=2, pp=2, data="zero1"), 0.97, 0.92),
        (Plan(tp=2, pp=4, schedule="interleaved", chunks=2), 0.97, 0.91),
        (Plan(dp=8, data="fsdp"), 0.7, 0.7),
    ],
)
def test_the_bound_is_near_where_networks_are_not_crowded(
    plan: Plan, share: float, slowed: float
) -> None:
    """Less near where communication slows down computation: only some of that is certain beforehand."""
    model = model_named("llama3.1-8b").replace(layers=8)
    workload = Workload(model=model, plan=plan, step=Step(seq=2048, global_batch=16))
    machine = load_machine("dgx-h100")
    assert share <= nearness(workload, undisturbed(machine)) <= 1
    assert slowed <= nearness(workload, machine) <= 1


@pytest.mark.parametrize("reshard", ["default", "never"])
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_parameters_that_stay_in_a_pipeline(reshard: str, schedule: str) -> None:
    chunks = 2 if schedule == "interleaved" else 1
    plan = Plan(dp=2, pp=2, data="fsdp", reshard=reshard, schedule=schedule, chunks=chunks)  # type: ignore[arg-type]
    model = model_named("gpt3-125m").replace(layers=4)
    workload = Workload(model=model, plan=plan, step=Step(seq=256, global_batch=16))
    machine = load_machine("dgx-h100")
    made, bound = generated(workload), Bounds(machine, Roofline()).of(workload)
    assert bound.memory_bytes == max(c.memory["total"] for c in dry_run(made).per_rank)
    assert bound.step_ps <= simulate(made.traces(), machine, compute="roofline").outcome.makespan_ps


def nearness(workload: Workload, machine: Machine) -> float:
    """The bound as a share of the simulated step."""
    bound = Bounds(machine, Roofline()).of(workload)
    done = simulate(generate(workload), machine, compute="roofline")
    return bound.step_ps / done.outcome.makespan_ps


def test_groups_lie_where_a_simulation_puts_them() -> None:
    """On racks of 72 a step of 128 ranks takes 64 of each: its groups of 64 never leave a rack."""
    model = model_named("gpt3-125m").replace(layers=2)
    plan = Plan(dp=64, pp=2, data="zero1")
    workload = Workload(model=model, plan=plan, step=Step(seq=256, global_batch=64))
    assert 0.5 <= nearness(workload, load_machine("gb200-nvl72:2")) <= 1
