"""The best plan of a model on a machine: bounds first, simulation where they cannot decide.

Plans are taken in the order of what they need at least. A plan is simulated only while its bound is
below the best simulated one, so the answer is the best of the whole space and most of it is never run.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.machine import Machine
from chakrakit.simulator.simulate import Simulation, simulate, work_model
from chakrakit.studies.bound import Bounds
from chakrakit.studies.measure import mean
from chakrakit.studies.objective import Objective
from chakrakit.studies.parts import parts_of, why
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate import generate

_BEYOND = 30
"""How many plans that do not fit are looked at, to tell what memory costs."""

Progress = Callable[[int, int | None], None]


class PlanResult(msgspec.Struct, kw_only=True):
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


class SearchResult(msgspec.Struct, kw_only=True):
    """What `chakra search --json` prints."""

    best: PlanResult
    runners_up: list[PlanResult]
    """The next best plans, and plans that would be better if they fitted."""
    evaluated: int
    """Plans that were simulated."""
    pruned: int
    """Plans that were not: their bound, or their memory, decided."""
    over_memory: int
    """Of those pruned, the ones that do not fit."""
    machine: str
    objective: str
    method: str
    reproduce: str = ""
    """The commands that make this plan's traces and run them again."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A plan that was simulated."""

    workload: Workload
    result: PlanResult


class Searcher:
    """Bounds and simulations of plans on one machine, each made once."""

    def __init__(self, machine: Machine, compute: str, objective: Objective) -> None:
        self.machine, self.work, self.objective = machine, work_model(compute), objective
        self.bounds = Bounds(machine, self.work)
        room = min(device.memory for device in machine.devices)
        self.room = room or float("inf")
        self._peak = max(max(d.peak.values(), default=0.0) for d in machine.devices)
        self.done: list[Evaluated] = []
        self.over: list[tuple[float, Workload]] = []

    def least(self, workload: Workload, flops: float) -> float:
        """The objective at the devices' peak rate: cheap, and below everything else."""
        seconds = flops / (workload.plan.world * self._peak) if self._peak else 0.0
        return self.objective.value(workload.plan.world, seconds * 1e12, 0.0)

    def fits(self, workload: Workload) -> bool:
        """Whether it fits; if not, it is noted."""
        need = self.bounds.memory(workload)
        if need > self.room:
            self.over.append((need, workload))
        return need <= self.room

    def bound(self, workload: Workload) -> float:
        """The objective below which no simulation of it comes."""
        found = self.bounds.of(workload)
        return self.objective.value(workload.plan.world, found.step_ps, found.compute_ps)

    @property
    def best(self) -> Evaluated | None:
        """The best that fits so far; of equals the one found first."""
        fitting = [e for e in self.done if e.result.fits]
        return min(fitting, key=lambda e: e.result.value, default=None)

    def evaluate(self, workload: Workload) -> Evaluated:
        """Simulates a plan."""
        done = simulate(generate(workload), self.machine, compute=self.work)
        one = Evaluated(workload, self._result(workload, done))
        self.done.append(one)
        return one

    def _result(self, workload: Workload, done: Simulation) -> PlanResult:
        plan, summary = workload.plan, done.summary
        need = self.bounds.memory(workload)
        compute = mean(summary.ranks, "compute_ns") * len(summary.ranks) * 1e3
        value = self.objective.value(plan.world, summary.makespan_ns * 1e3, compute)
        return PlanResult(
            gpus=plan.world, dp=plan.dp, tp=plan.tp, pp=plan.pp, cp=plan.cp, ep=plan.ep,
            micro_batch=workload.step.micro_batch, data=plan.data, recompute=plan.recompute,
            schedule=plan.schedule, chunks=plan.chunks, step_ns=summary.makespan_ns, value=value,
            mfu=summary.mfu, memory_bytes=need, fits=need <= self.room, parts=parts_of(done.outcome),
        )  # fmt: skip


def exhaust(searcher: Searcher, plans: Iterable[Workload], progress: Progress) -> int:
    """Searches all plans; returns how many there are."""
    flops = _Flops()
    order = itertools.count()
    queue = [(searcher.least(w, flops.of(w)), next(order), False, w) for w in plans]
    heapq.heapify(queue)
    count, limit = len(queue), float("inf")
    while queue:
        bound, _, sharp, workload = heapq.heappop(queue)
        if bound >= limit:
            break
        if sharp:
            limit = min(limit, searcher.evaluate(workload).result.value)
        elif searcher.fits(workload):
            heapq.heappush(queue, (searcher.bound(workload), next(order), True, workload))
        progress(count - len(queue), count)
    return count


class _Flops:
    """Matrix FLOPs of a step, which no plan can do without; known by what is recomputed."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, workload: Workload) -> float:
        from chakrakit.workloads.dry_run import dry_run
        from chakrakit.workloads.generate import generated

        key = workload.plan.recompute
        if key not in self._known:
            alone = workload.replace(
                plan=type(workload.plan)(recompute=key),
                step=workload.step.replace(global_batch=1, micro_batch=1),
            )
            self._known[key] = dry_run(generated(alone)).flops_total
        return self._known[key] * workload.step.global_batch


def ranked(searcher: Searcher, runners: int) -> tuple[PlanResult, list[PlanResult]]:
    """The best plan, and the others with what they lost by."""
    best = searcher.best
    if best is None:
        raise ConfigError(_nothing_fits(searcher))
    _beyond(searcher, best)
    parts = best.result.parts
    others = sorted((e.result for e in searcher.done if e is not best), key=lambda r: r.value)
    better = [r for r in others if not r.fits and r.value < best.result.value][:3]
    shown = sorted([*better, *[r for r in others if r.fits][:runners]], key=lambda r: r.value)
    for one in shown:
        one.why = why(one.step_ns, one.parts, parts)
        if not one.fits:
            one.why = f"does not fit: needs {_gib(one.memory_bytes)}, a device has {_gib(searcher.room)}; {one.why}"
    best.result.why = ", ".join(
        f"{name} {100 * value / best.result.step_ns:.1f} %" for name, value in parts.items()
    )
    return best.result, shown


def _beyond(searcher: Searcher, best: Evaluated) -> None:
    """Simulates the two best of the plans that only just do not fit, if they would be better."""
    near = sorted(searcher.over, key=lambda one: one[0])[:_BEYOND]
    bounds = sorted(((searcher.bound(w), i) for i, (_, w) in enumerate(near)))
    for bound, i in bounds[:2]:
        if bound < best.result.value:
            searcher.evaluate(near[i][1])


def _nothing_fits(searcher: Searcher) -> str:
    if not searcher.over:
        return "no plan can be; check gpus, batch and the axes given against `chakra generate`"
    need, workload = min(searcher.over, key=lambda one: one[0])
    plan = workload.plan
    return (
        f"no plan fits: the smallest (tp {plan.tp}, pp {plan.pp}, {plan.data}, recompute "
        f"{plan.recompute}) needs {_gib(need)} and a device of {searcher.machine.name} has "
        f"{_gib(searcher.room)}; use more devices or a smaller batch"
    )


def _gib(count: float) -> str:
    return f"{count / 2**30:,.1f} GiB"
