"""Bounds and simulations of plans on one machine, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from chakrakit.machines.device import Roofline, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.results import Result
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.studies.bound import Bounds
from chakrakit.studies.search.objective import Objective
from chakrakit.studies.search.parts import parts_of
from chakrakit.workloads.description import Plan, Workload
from chakrakit.workloads.generate import generate


class PlanResult(Result, msgspec.Struct, kw_only=True):
    """A plan and what its simulation says. `value` is the objective: seconds, joules or money."""

    gpus: int
    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    micro_batch: int
    data: str
    recompute: str
    schedule: str
    chunks: int
    step_ns: float
    value: float
    mfu: float | None
    memory_bytes: int
    fits: bool
    parts: dict[str, float]
    """Nanoseconds of the step: compute, exposed communication by group, bubble; means over ranks."""
    why: str = ""
    """Why it lost to the best; of the best, what its step is made of."""

    @property
    def spelled(self) -> str:
        """The plan in a line."""
        degrees = " ".join(
            f"{name} {getattr(self, name)}" for name in ("dp", "tp", "pp", "cp", "ep")
        )
        return f"{degrees}, micro-batch {self.micro_batch}, {self.data}, {self.schedule}"


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A plan that was simulated."""

    workload: Workload
    result: PlanResult


class Searcher:
    """Bounds and simulations of plans on one machine, each made once."""

    def __init__(self, machine: Machine, compute: str, objective: Objective) -> None:
        # Generated traces have no times: `auto` is the roofline wherever a device has no profile.
        plain = compute == "auto" and not any(device.profile for device in machine.devices)
        self.work = Roofline() if plain else work_model(compute)
        self.machine, self.objective = machine, objective
        self.bounds = Bounds(machine, self.work)
        room = min(device.memory for device in machine.devices)
        self.room = room or float("inf")
        self._alone: dict[tuple[str, int], tuple[int, int]] = {}
        self.done: list[Evaluated] = []
        self.over: list[tuple[float, Workload]] = []

    def least(self, workload: Workload) -> float:
        """The objective if all computation were spread evenly and nothing else took time.

        An operator cut into parts has no less to do and to move in all of them together, so one
        device's time for the whole step, over the number of devices, is below every plan's. That
        holds for the roofline; a profile's table may say otherwise, and then nothing is known.
        """
        if not isinstance(self.work, Roofline):
            return 0.0
        key = (workload.plan.recompute, workload.step.micro_batch)
        if key not in self._alone:
            once, twice = (self._compute_alone(workload, times) for times in (1, 2))
            self._alone[key] = (once, twice - once)
        once, more = self._alone[key]
        passes = workload.step.global_batch // workload.step.micro_batch
        total = once + (passes - 1) * more
        return self.objective.least(workload.plan.world, total / workload.plan.world, total)

    def _compute_alone(self, workload: Workload, passes: int) -> int:
        """Computation of so many micro-batches on one device."""
        plan = Plan(recompute=workload.plan.recompute)
        step = workload.step.replace(global_batch=passes * workload.step.micro_batch)
        return self.bounds.of(workload.replace(plan=plan, step=step)).compute_ps

    def fits(self, workload: Workload) -> bool:
        """Whether it fits; if not, it is noted."""
        need = self.bounds.memory(workload)
        if need > self.room:
            self.over.append((need, workload))
        return need <= self.room

    def bound(self, workload: Workload) -> float:
        """The objective below which no simulation of it comes."""
        found = self.bounds.of(workload)
        return self.objective.least(workload.plan.world, found.step_ps, found.compute_ps)

    def ranking(self) -> list[Evaluated]:
        """The simulated plans that fit, best first; of equals the one found first."""
        return sorted((e for e in self.done if e.result.fits), key=lambda e: e.result.value)

    def limit(self) -> float:
        """What a plan must be below to be better than all so far."""
        return min((e.result.value for e in self.done if e.result.fits), default=float("inf"))

    def evaluate(self, workload: Workload) -> Evaluated:
        """Simulates a plan."""
        done = simulate(generate(workload), self.machine, compute=self.work)
        one = Evaluated(workload, self._result(workload, done))
        self.done.append(one)
        return one

    def _result(self, workload: Workload, done: Simulation) -> PlanResult:
        plan, summary = workload.plan, done.summary
        need = self.bounds.memory(workload)
        return PlanResult(
            gpus=plan.world,
            dp=plan.dp,
            tp=plan.tp,
            pp=plan.pp,
            cp=plan.cp,
            ep=plan.ep,
            micro_batch=workload.step.micro_batch,
            data=plan.data,
            recompute=plan.recompute,
            schedule=plan.schedule,
            chunks=plan.chunks,
            step_ns=summary.makespan_ns,
            value=self.objective.of(plan.world, summary),
            mfu=summary.mfu,
            memory_bytes=need,
            fits=need <= self.room,
            parts=parts_of(done.outcome),
        )
