"""Seven plans for Llama 3.1 8B on sixteen devices, simulated on a GPU and a TPU machine."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from chakrakit.machines import load_machine
from chakrakit.published import unsure
from chakrakit.simulator.engine import with_bandwidth
from chakrakit.simulator.results import simulate
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import workload_of

RANKS = 16
MACHINES = {"GPU": "dgx-h100:2", "TPU": "tpu-v5e"}
OTHER = {"GPU": "TPU", "TPU": "GPU"}
PLANS: dict[str, dict[str, Any]] = {
    "fsdp": {"dp": RANKS, "data": "fsdp"},
    "fsdp, no prefetch": {"dp": RANKS, "data": "fsdp", "prefetch": 0},
    "ddp": {"dp": RANKS, "data": "ddp"},
    "tp8 dp2": {"tp": 8, "dp": 2, "data": "zero1"},
    "tp8 pp2": {"tp": 8, "pp": 2, "dp": 1, "data": "zero1"},
    "pp4 dp4": {"pp": 4, "dp": 4, "data": "zero1", "micro_batch": 1},
    "pp4 gpipe": {"pp": 4, "dp": 4, "data": "zero1", "schedule": "gpipe"},
}
SHARDED = ("fsdp", "fsdp, no prefetch", "ddp")
"""What one framework offers; the others are what another does."""


class PlanStep(NamedTuple):
    """A plan's step: seconds, seconds of communication and of that which nothing covers."""

    seconds: float
    communication: float
    exposed: float


@cache
def traces(plan: str, batch: int, layers: int) -> TraceSet:
    """A step of Llama 3.1 8B, or of some of its layers."""
    fields = {"seq": 2048, "global_batch": batch, "layers": layers, **PLANS[plan]}
    return generate(workload_of(None, "llama3.1-8b", fields))


@cache
def step(machine: str, plan: str, batch: int, layers: int, links: float, seed: int) -> PlanStep:
    """How a plan does on a machine whose links are so many times as fast."""
    site = with_bandwidth(unsure(load_machine(MACHINES[machine]), seed), links)
    summary = simulate(traces(plan, batch, layers), site, compute="roofline").summary
    spent = [
        sum(getattr(r, name) for r in summary.ranks) for name in ("comm_ns", "exposed_comm_ns")
    ]
    return PlanStep(summary.makespan_s, *(s * 1e-9 for s in spent))


@cache
def steps(
    machine: str, batch: int, layers: int, links: float, seed: int, every: int = 1
) -> dict[str, PlanStep]:
    """All plans, or every second one."""
    return {plan: step(machine, plan, batch, layers, links, seed) for plan in [*PLANS][::every]}
