"""The best flags of a script on a machine: every combination captured, and simulated where it fits."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.exploration.search.plan_search import gib, machine_for
from chakrakit.exploration.search.searcher import (
    BUBBLE,
    Name,
    Objective,
    Ranked,
    objective_of,
    parts_of,
    shares,
    why,
)
from chakrakit.exploration.sweep import CapturedWorkload, captured_of
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.parallel import Progress, quiet
from chakrakit.results import Bars, Result
from chakrakit.simulator.results import simulate
from chakrakit.trace.sets import TraceSet


class ScriptPlan(Result, msgspec.Struct, kw_only=True):
    """A script with flags and what its simulation says. `value` is the objective."""

    gpus: int
    flags: dict[str, Any]
    command: str
    step_ns: float
    value: float
    mfu: float | None
    memory_bytes: int
    parts: dict[str, float]
    """Nanoseconds of the step: compute, exposed communication by group, and waiting, for the host too; means
    over ranks."""
    rung: str = ""
    """Where the times of computation come from."""
    interval_ns: tuple[float, float] | None = None
    """Where 90 of 100 measured steps should lie."""
    why: str = ""
    """Why it lost to the best; of the best, what its step is made of."""

    @property
    def spelled(self) -> str:
        """The flags in a line."""
        return " ".join([f"{self.gpus} gpus", *(f"{k}={v}" for k, v in self.flags.items())])


class RefusedFlags(msgspec.Struct, kw_only=True):
    """Flags with which the script cannot be captured, and its error, or which do not fit."""

    gpus: int
    flags: dict[str, Any]
    error: str


class ScriptSearchResult(Ranked, msgspec.Struct, kw_only=True):
    """What `chakra search --capture … --json` prints."""

    best: ScriptPlan
    runners_up: list[ScriptPlan]
    evaluated: int
    """Combinations that were simulated."""
    over_memory: int
    """Of those refused, the ones that were captured and do not fit."""
    refused: list[RefusedFlags]
    machine: str
    objective: str
    stopped: bool = False
    """Whether it was interrupted: the best of what had been looked at by then."""

    def picture(self) -> Bars:
        """The steps with these flags."""
        plans = [(p.spelled, p.step_ns, f"{p.step_ns / 1e6:,.1f} ms") for p in self.table_rows()]
        return Bars(f"steps on {self.machine}, by {self.objective}", plans)


@dataclass(frozen=True)
class _Setting:
    machine: Machine
    objective: Objective
    compute: str

    @property
    def room(self) -> float:
        return min(device.memory for device in self.machine.devices) or float("inf")

    def simulated(self, choice: _Choice, traces: TraceSet) -> ScriptPlan:
        simulation = simulate(traces, self.machine, compute=self.compute)
        summary = simulation.summary
        gpus = choice.captured.ranks
        return ScriptPlan(
            gpus=gpus,
            flags=choice.flags,
            command=choice.captured.capture,
            step_ns=summary.makespan_ns,
            value=self.objective.of(gpus, summary),
            mfu=summary.mfu,
            rung=summary.rung,
            memory_bytes=traces.card.measured["memory_bytes"],
            parts={_WAITS.get(n, n): ns for n, ns in parts_of(simulation.outcome).items()},
            interval_ns=summary.interval_ns,
        )


_WAITS = {BUBBLE: "waiting or host"}
"""What is left of a captured program's step: it need not have a pipeline."""


@dataclass(frozen=True)
class _Choice:
    flags: dict[str, Any]
    captured: CapturedWorkload


def search_script(
    command: str,
    gpus: Sequence[int],
    machine: str,
    *,
    flags: Mapping[str, Sequence[Any]],
    device: str = "",
    steps: str | None = None,
    objective: Name = "step",
    compute: str = "auto",
    price_per_hour: float | None = None,
    runners: int = 5,
    progress: Progress = quiet,
) -> tuple[ScriptSearchResult, TraceSet]:
    """Returns the best flags with the runners-up, and the traces of the best ones.

    `flags` has values for the places in the command: `{"tp": [1, 2]}` for `python train.py --tp {tp}`.
    Nothing is known of a script before it is captured, so every combination is captured.
    """
    if not gpus or min(gpus) < 1:
        raise ConfigError("gpus should be one or more numbers of 1 or more, as in 64 or 64,128")
    name = machine_for(machine, max(gpus))
    loaded = load_machine(name)
    setting = _Setting(loaded, objective_of(objective, loaded, price_per_hour), compute)
    plain = {"capture": command, "device": device, "steps": steps}
    choices = list(_choices(plain, gpus, flags))
    simulated: list[tuple[ScriptPlan, TraceSet]] = []
    refused: list[RefusedFlags] = []
    stopped = False
    try:
        for number, choice in enumerate(choices):
            progress(number, len(choices))
            _try(choice, setting, simulated, refused)
    except KeyboardInterrupt:
        if not simulated:
            raise
        stopped = True
    if not simulated:
        raise ConfigError(f"no combination of flags can be; the first: {refused[0].error}")
    simulated.sort(key=lambda entry: entry[0].value)
    plans = [plan for plan, _ in simulated[: 1 + runners]]
    _explain(plans)
    result = ScriptSearchResult(
        best=plans[0],
        runners_up=plans[1:],
        evaluated=len(simulated),
        over_memory=sum(entry.error.startswith(_TOO_LARGE) for entry in refused),
        refused=refused,
        machine=name,
        objective=objective,
        stopped=stopped,
    )
    return result, simulated[0][1]


_TOO_LARGE = "does not fit"


def _choices(
    plain: Mapping[str, Any], gpus: Sequence[int], flags: Mapping[str, Sequence[Any]]
) -> Sequence[_Choice]:
    """Every combination; a ConfigError for places and flags that do not belong together."""
    for name, values in flags.items():
        if not values:
            raise ConfigError(f"flag {name!r} has no value to choose from")
    choices = []
    for ranks, *values in itertools.product(gpus, *flags.values()):
        values_of_flags = dict(zip(flags, values, strict=True))
        choices.append(
            _Choice(values_of_flags, captured_of({**plain, "ranks": ranks}, values_of_flags))
        )
    return choices


def _try(
    choice: _Choice,
    setting: _Setting,
    simulated: list[tuple[ScriptPlan, TraceSet]],
    refused: list[RefusedFlags],
) -> None:
    """Capture, and simulate what fits; what the script or the memory refuses is noted."""
    gpus = choice.captured.ranks
    try:
        traces = choice.captured.traces()
    except ConfigError as error:
        refused.append(RefusedFlags(gpus=gpus, flags=choice.flags, error=str(error)))
        return
    need = traces.card.measured["memory_bytes"]
    if need > setting.room:
        text = f"{_TOO_LARGE}: needs {gib(need)}, a device has {gib(setting.room)}"
        refused.append(RefusedFlags(gpus=gpus, flags=choice.flags, error=text))
    else:
        simulated.append((setting.simulated(choice, traces), traces))


def _explain(plans: Sequence[ScriptPlan]) -> None:
    best = plans[0]
    best.why = shares(best.step_ns, best.parts)
    for plan in plans[1:]:
        plan.why = why(plan.step_ns, plan.parts, best.parts)
