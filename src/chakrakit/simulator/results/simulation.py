"""One call from names to a result: what the command line and scripts use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.machines.device import WorkModel, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine, parse_machine
from chakrakit.passes.nodes import with_run_times
from chakrakit.results import Facts
from chakrakit.simulator.engine import Outcome, SimulationOptions
from chakrakit.simulator.results.energy import energy_of, run_within_limits
from chakrakit.simulator.results.result import Detail, to_run
from chakrakit.simulator.results.summary import SimulationSummary, summarize
from chakrakit.trace.sets import Run, TraceSet


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Facts):
    """A finished simulation: the summary at once, the Run when it is asked for."""

    outcome: Outcome
    machine: Machine
    summary: SimulationSummary
    settings: dict[str, Any]

    @property
    def makespan_ns(self) -> float:
        """The last end."""
        return self.summary.makespan_ns

    def facts(self) -> SimulationSummary:
        """What `--json` prints."""
        return self.summary

    def run(self, detail: Detail = "classes") -> Run:
        """The traces with their times."""
        run = to_run(self.outcome, self.machine, self.settings, detail)
        return run.with_card(self.summary.footprint.put(run.card))


def simulate(
    traces: TraceSet,
    machine: Machine | str | None,
    *,
    compute: str | WorkModel = "auto",
    options: SimulationOptions | None = None,
) -> Simulation:
    """Runs traces on a machine, given as such, by name (`dgx-h100:4`) or as a file.

    Without a machine all times must be measured: then none of its figures counts.
    """
    work = work_model(compute) if isinstance(compute, str) else compute
    chosen = replace(options or SimulationOptions(), work=work)
    if machine is None:
        machine = _no_machine(traces, chosen)
    made = load_machine(machine) if isinstance(machine, str) else machine
    if work.name == "measured" or chosen.communication == "measured":
        traces = with_run_times(traces)
    outcome, limit = run_within_limits(traces, made, chosen)
    names = {"network": chosen.network, "compute": work.name, "machine": made.name}
    return Simulation(
        outcome,
        made,
        summarize(outcome, made, names, energy_of(outcome, made, limit)),
        {**_settings(chosen), **names, **_memory(made)},
    )


def _no_machine(traces: TraceSet, options: SimulationOptions) -> Machine:
    """Room for all ranks and nothing else: no peak, memory, power or price to compare with."""
    if options.work.name != "measured" or options.communication != "measured":
        raise ConfigError(
            "say what to simulate on: --machine NAME_OR_FILE; only --compute measured with "
            "--communication measured needs none"
        )
    level = {"topology": "switch", "size": max(1, traces.world_size), "bandwidth": 1e9}
    return replace(parse_machine({"network": [level]}, "no machine"), name="")


def _memory(machine: Machine) -> dict[str, int]:
    """What the smallest device has, for those who look at the run later."""
    least = min(int(device.memory) for device in machine.devices)
    return {"device_memory_bytes": least} if least else {}


def _settings(options: SimulationOptions) -> dict[str, Any]:
    """What was asked for and what came of it, for the card."""
    found: dict[str, Any] = {"algorithms": dict(options.algorithms.fixed) or "auto"}
    found |= options.settings
    if options.placement is not None:
        found["placement"] = list(options.placement)
    return found
