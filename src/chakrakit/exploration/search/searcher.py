"""Bounds and simulations of plans on one machine: the objective, where a step's time goes, and rankings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.exploration.bound import Bounds
from chakrakit.machines.device import PICO, DataSheet, Device, Draw, Roofline, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.results import Result
from chakrakit.simulator.engine import COMPUTE, Outcome
from chakrakit.simulator.results import Simulation, SimulationSummary, simulate
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import PS_PER_NS
from chakrakit.trace.timing import Intervals
from chakrakit.workloads.description import Plan, Workload
from chakrakit.workloads.generate import generate

# --- the objective: time, energy or price of a step ---------------------------------------------


Name = Literal["step", "energy", "price"]


@dataclass(frozen=True)
class Objective:
    """What a search minimizes (seconds, joules or money): values of simulated steps, and lower bounds."""

    name: Name
    busy_watts: float
    """What a device draws at least while it computes."""
    idle_watts: float
    """What it draws at least while it does not."""
    price_per_hour: float

    def least(self, gpus: int, step_ps: float, compute_ps: float) -> float:
        """Returns a lower bound for steps of at least this time and this computation, summed over devices."""
        seconds, busy = step_ps * PICO, compute_ps * PICO
        if self.name == "energy":
            return busy * self.busy_watts + (gpus * seconds - busy) * self.idle_watts
        return self._of_time(gpus, seconds)

    def of(self, gpus: int, summary: SimulationSummary) -> float:
        """Of a simulated step."""
        if self.name == "energy" and summary.energy_joules is not None:
            return summary.energy_joules
        return self._of_time(gpus, summary.makespan_ns * 1e-9)

    def _of_time(self, gpus: int, seconds: float) -> float:
        return seconds if self.name == "step" else gpus * seconds * self.price_per_hour / 3600


def objective_of(name: Name, machine: Machine, price_per_hour: float | None) -> Objective:
    """The objective on a machine; a ConfigError if the machine does not know what it needs."""
    price = (
        min(d.price_per_hour for d in machine.devices) if price_per_hour is None else price_per_hour
    )
    if name == "energy" and not all(d.power for d in machine.devices):
        raise ConfigError(
            f"{machine.name} does not say what its devices draw; add `power: 700 W` (and `idle_power`) "
            "to the device in a machine file"
        )
    if name == "price" and not price > 0:
        raise ConfigError(
            f"{machine.name} does not say what its devices cost; give --price-per-hour, or add "
            "`price_per_hour` to the device in a machine file"
        )
    watts = [_least_watts(device) for device in machine.devices]
    return Objective(name, min(busy for busy, _ in watts), min(idle for _, idle in watts), price)


def _least_watts(device: Device) -> tuple[float, float]:
    """While it computes, and while it does not.

    A device of which more is known draws by its clock and its work: at least what its clocks draw at their
    lowest, since the work of a plan is only known once it is simulated.
    """
    if device.dynamic is None:
        return device.power, device.idle_power
    lowest = Draw(
        constants=device.dynamic, share=device.dynamic.least_clock_mhz / device.dynamic.clock_mhz
    )
    watts = device.idle_power + lowest.clock_watts
    return watts, watts


# --- where the time of a step goes, as means over all ranks -------------------------------------


BUBBLE = "bubble"
_NOTABLE = 0.002
"""Differences below 0.2 % of the step are not mentioned: the step itself is printed to 0.1 %."""


def parts_of(outcome: Outcome) -> dict[str, float]:
    """Nanoseconds of compute, of communication that nothing covers by group, and of the bubble.

    What is covered by several counts for the first of them: compute, then groups by name. The bubble is
    all the rest: waiting for messages from other stages, and for nothing at all.
    """
    total: dict[str, float] = {}
    ranks = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    for c in range(outcome.classes.count):
        for name, value in _class_parts(outcome, c).items():
            total[name] = (
                total.get(name, 0.0) + value * int(ranks[c]) / int(ranks.sum()) / PS_PER_NS
            )
    return total


def _class_parts(outcome: Outcome, c: int) -> dict[str, int]:
    program = outcome.program(c)
    rows, trace = outcome.rows(c), program.trace
    start, end = outcome.start[rows], outcome.end[rows]
    covered = Intervals.of(start[program.kind == COMPUTE], end[program.kind == COMPUTE])
    parts = {"compute": covered.total}
    collective = trace.is_type(NodeType.COMM_COLL_NODE)
    groups = (
        np.array(trace.table.column("pg_name").fill_null("").to_pylist())
        if collective.any()
        else None
    )
    for name in sorted(set(groups[collective].tolist())) if groups is not None else ():
        mine = collective & (groups == name)
        more = covered | Intervals.of(start[mine], end[mine])
        parts[f"exposed {name}"] = more.total - covered.total
        covered = more
    parts[BUBBLE] = outcome.makespan_ps - covered.total
    return parts


def shares(step_ns: float, parts: Mapping[str, float]) -> str:
    """What a step is made of."""
    return ", ".join(f"{name} {100 * value / step_ns:.1f} %" for name, value in parts.items())


def why(step_ns: float, parts: Mapping[str, float], best: Mapping[str, float]) -> str:
    """What makes a step longer than the best one, the largest part first."""
    whole = sum(best.values())
    names = dict.fromkeys((*parts, *best))
    change = {n: parts.get(n, 0.0) - best.get(n, 0.0) for n in names}
    differences = [
        f"{n} {'+' if d > 0 else '−'}{abs(d) / 1e6:,.1f} ms"
        for n, d in sorted(change.items(), key=lambda item: -item[1])
        if abs(d) > _NOTABLE * whole
    ]
    slower = 100 * (step_ns / whole - 1)
    head = f"{slower:.1f} % longer" if slower >= 0 else f"{-slower:.1f} % shorter"
    return f"{head}: {', '.join(differences)}" if differences else f"{head}; no part differs much"


# --- rankings -----------------------------------------------------------------------------------


class Ranked(Result):
    """Mixed into a struct with the fields `best` and `runners_up`."""

    __slots__ = ()
    best: Any
    runners_up: list[Any]

    def table_rows(self) -> list[Any]:
        """The best first."""
        return [self.best, *self.runners_up]


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
    rung: str = ""
    """Where the times of computation come from."""
    interval_ns: tuple[float, float] | None = None
    """Where 90 of 100 measured steps should lie."""
    interval_groups: dict[str, tuple[float, float, float, float]] = {}
    """What the interval is made of, by group of residuals."""
    interval_operations: dict[str, dict[str, float]] = {}
    """By group of residuals, ns of the operations that take longest."""
    interval_step: str = ""
    """The group of published training steps whose residuals the interval respects."""
    tie: bool = False
    """Whether the difference to the best is within its interval: nothing says which of the two is faster."""
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
        # Generated traces have no times: `auto` is the data sheet wherever a device has no profile.
        plain = compute == "auto" and not any(device.profile for device in machine.devices)
        self.work = DataSheet() if plain else work_model(compute)
        self.machine, self.objective = machine, objective
        self.bounds = Bounds(machine, self.work)
        room = min(device.memory for device in machine.devices)
        self.room = room or float("inf")
        self._alone: dict[tuple[str, int], tuple[int, int]] = {}
        self.evaluated: list[Evaluated] = []
        self.over: list[tuple[float, Workload]] = []

    def least(self, workload: Workload) -> float:
        """The objective if all computation were spread evenly and nothing else took time.

        An operator cut into parts has no less to do and to move in all of them together, so one
        device's time for the whole step, over the number of devices, is below every plan's. That
        holds for the roofline; a profile's table may say otherwise, and then nothing is known.
        """
        if not isinstance(self.work, Roofline | DataSheet):
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
        bound = self.bounds.of(workload)
        return self.objective.least(workload.plan.world, bound.step_ps, bound.compute_ps)

    def ranking(self) -> list[Evaluated]:
        """The simulated plans that fit, best first; of equals the one found first."""
        return sorted((e for e in self.evaluated if e.result.fits), key=lambda e: e.result.value)

    def limit(self) -> float:
        """What a plan must be below to be better than all so far."""
        return min((e.result.value for e in self.evaluated if e.result.fits), default=float("inf"))

    def evaluate(self, workload: Workload) -> Evaluated:
        """Simulates a plan."""
        simulation = simulate(generate(workload), self.machine, compute=self.work)
        evaluated = Evaluated(workload, self._result(workload, simulation))
        self.evaluated.append(evaluated)
        return evaluated

    def _result(self, workload: Workload, simulation: Simulation) -> PlanResult:
        plan, summary = workload.plan, simulation.summary
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
            rung=summary.rung,
            interval_ns=summary.interval_ns,
            interval_groups=summary.interval_groups,
            interval_operations=summary.interval_operations,
            interval_step=summary.interval_step,
            memory_bytes=need,
            fits=need <= self.room,
            parts=parts_of(simulation.outcome),
        )
