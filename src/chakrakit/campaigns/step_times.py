"""How long a step takes: given, of a Run, or simulated; and with fewer nodes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.campaigns.job_text import CostsText, JobText
from chakrakit.campaigns.recovery import Elastic
from chakrakit.errors import ConfigError
from chakrakit.exploration.search import search
from chakrakit.insight import steps
from chakrakit.insight.rank import read_run
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes.scale import ScaleRanks
from chakrakit.simulator.results import SimulationSummary, simulate
from chakrakit.trace.sets import TraceSet, footprint_of
from chakrakit.trace.storage import read
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate import generated
from chakrakit.workloads.models import from_plain

SIMULATED = 3
"""How many smaller jobs are simulated; still smaller ones have the same work on fewer nodes."""


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The healthy job's step, and what is known beside it."""

    seconds: float
    interval: tuple[float, float] | None = None
    """Seconds that 90 of 100 measured steps should lie between; None where the step was measured or given."""
    tokens: int | None = None
    notes: list[str] = []

    def costs(self, described: CostsText, nodes: int) -> CostsText:
        """Costs as given; what the machine says where nothing is given."""
        return described

    def notes_on(self, described: CostsText, nodes: int) -> list[str]:
        """What was taken of the machine for a job of so many nodes; refuses a number that cannot be."""
        return []

    def replica_nodes(self, nodes: int) -> int | None:
        """Nodes of one data-parallel replica, where that is known."""
        return None

    def with_fewer(self, nodes: int, size: int, policy: Elastic) -> dict[int, float]:
        """Seconds of a step with fewer nodes, where that can be simulated."""
        return {}


class SimulatedStep(StepTimes, frozen=True, kw_only=True):
    """A step of a workload on a machine."""

    traces: TraceSet
    workload: Workload | None
    """Where the traces were generated."""
    machine: Machine
    machine_name: str
    compute: str
    summary: SimulationSummary

    def costs(self, described: CostsText, nodes: int) -> CostsText:
        """The machine's power, servers, building and price, unless the job file has its own."""
        simulated: dict[str, Any] = {}
        seconds = self.summary.makespan_ns * 1e-9
        if described.node_watts is None and self.summary.energy_joules is not None:
            busy = self.summary.energy_joules / seconds
            idle = math.fsum(self.machine.device(i).idle_power for i in range(len(self.traces)))
            simulated["node_watts"] = self._with_servers(busy) / nodes
            simulated["idle_node_watts"] = self._with_servers(idle) / nodes
            if described.pue is None and self.machine.site is not None:
                simulated["pue"] = self.machine.site.pue
        if described.node_hour_price is None and self.summary.price is not None:
            simulated["node_hour_price"] = self.summary.price / (seconds / 3600) / nodes
        return msgspec.structs.replace(described, **simulated)

    def _with_servers(self, watts: float) -> float:
        site = self.machine.site
        return watts if site is None else site.server_joules(watts, len(self.traces), 1.0)

    def notes_on(self, described: CostsText, nodes: int) -> list[str]:
        """How many devices a node has, and whose power is counted, where that could be taken otherwise."""
        return [*self._check_nodes(nodes), *self._whose_power(described)]

    def _check_nodes(self, nodes: int) -> list[str]:
        """Refuses nodes that the machine does not have; a machine need not say what a node of it is."""
        ranks, site = len(self.traces), self.machine.site
        size = site.devices_per_server if site else self.machine.node_size
        expected = -(-ranks // size)
        if nodes == expected:
            return []
        if site is not None or ranks % nodes:
            raise ConfigError(
                f"cluster.nodes is {nodes}, and the workload's {ranks} ranks are on {expected} of "
                f"{self.machine.name}, {size} devices each; give `nodes: {expected}`, or another plan"
            )
        return [f"nodes of {ranks // nodes} devices, of {self.machine.name}'s {size} side by side"]

    def _whose_power(self, described: CostsText) -> list[str]:
        if described.node_watts is not None or self.summary.energy_joules is None:
            return []
        name, site = self.machine.name, self.machine.site
        if site is None:
            return [f"energy is of the devices alone: {name} says nothing of servers and building"]
        pue = site.pue if described.pue is None else described.pue
        return [f"energy is with {name}'s servers, and the building by a pue of {pue:g}"]

    def replica_nodes(self, nodes: int) -> int | None:
        """From the plan; several replicas on a node come and go with it."""
        if self.workload is None:
            return None
        dp = self.workload.plan.dp
        return max(nodes // dp, 1)

    def with_fewer(self, nodes: int, size: int, policy: Elastic) -> dict[int, float]:
        """The first few smaller jobs, simulated with the same batch in every step."""
        smaller = range(nodes - size, max(policy.min_nodes, size) - 1, -size)
        how = self._searched if policy.plan == "search" else self._scaled
        return {n: how(n, nodes) for n in list(smaller)[:SIMULATED]}

    def _scaled(self, n: int, nodes: int) -> float:
        """Fewer replicas of the same; each has the batch it had, so more steps do the same work."""
        ranks = len(self.traces)
        if ranks * n % nodes:
            raise ConfigError(
                f"the plan cannot shrink: {ranks} ranks on {nodes} nodes are not whole ranks on {n}"
            )
        fewer = self.traces | ScaleRanks(ranks * n // nodes)
        simulation = simulate(fewer, self.machine, compute=self.compute)
        return simulation.makespan_ns * 1e-9 * nodes / n

    def _searched(self, n: int, nodes: int) -> float:
        """The fastest plan for the same batch on fewer nodes."""
        if self.workload is None:
            raise ConfigError("plan: search needs a workload with a model, not traces")
        gpus = len(self.traces) * n // nodes
        result, _ = search(
            self.workload.model,
            self.workload.step,
            [gpus],
            self.machine_name,
            compute=self.compute,
            runners=0,
        )
        return result.best.step_ns * 1e-9


def step_times(text: JobText, folder: Path) -> StepTimes:
    """What the job file says; paths in it are seen from its folder."""
    if text.step_seconds is not None:
        return StepTimes(seconds=text.step_seconds)
    if text.run is not None:
        return _of_run(folder / text.run)
    return _simulated(text, folder)


def _of_run(path: Path) -> StepTimes:
    run = read_run(str(path))
    run_steps = steps(run)
    tokens = run.card.measured.get("tokens")
    note = (
        f"a step of {run_steps.median_ns / 1e9:,.6g} s, from {path.name} (steps: {run_steps.found})"
    )
    seconds = _positive(run_steps.median_ns / 1e9)
    footprint = footprint_of(run.card)
    bounds = footprint.interval_ns if footprint else None
    share = seconds / max(run.makespan_ns, 1)
    return StepTimes(
        seconds=seconds,
        interval=(bounds[0] * share, bounds[1] * share) if bounds else None,
        tokens=tokens if isinstance(tokens, int) else None,
        notes=[note],
    )


def _simulated(text: JobText, folder: Path) -> StepTimes:
    described = isinstance(text.workload, dict)
    workload = from_plain(dict(text.workload)) if isinstance(text.workload, dict) else None
    tokens = None
    if workload is not None:
        programs = generated(workload)
        traces, tokens = programs.traces(), programs.tokens
    else:
        traces = read(str(folder / str(text.workload)))
    name = str(text.machine)
    beside = folder / name
    name = str(beside) if beside.is_file() else name
    machine = load_machine(name)
    compute = text.compute or ("auto" if described else "measured")
    summary = simulate(traces, machine, compute=compute).summary
    seconds = _positive(summary.makespan_ns * 1e-9)
    low_high = summary.interval_ns
    return SimulatedStep(
        seconds=seconds,
        interval=(low_high[0] * 1e-9, low_high[1] * 1e-9) if low_high else None,
        tokens=tokens,
        notes=[f"a step of {seconds:,.6g} s, simulated on {machine.name} ({compute} compute)"],
        traces=traces,
        workload=workload,
        machine=machine,
        machine_name=name,
        compute=compute,
        summary=summary,
    )


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ConfigError("its step takes no time; give times, or another way to compute them")
    return seconds
