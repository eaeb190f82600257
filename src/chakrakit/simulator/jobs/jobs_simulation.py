"""Several jobs simulated together, and each against running alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine
from chakrakit.results import Facts, Result
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.jobs.joined_jobs import JoinedJobs, join_jobs
from chakrakit.simulator.jobs.placement import Devices, place_jobs
from chakrakit.simulator.results import Simulation, simulate
from chakrakit.trace.sets import Run, TraceSet

MOST_PAIRS = 4_000_000
"""Pairs of devices whose routes are looked at before a job is simulated alone to be sure."""


class JobSummary(Result, msgspec.Struct, kw_only=True):
    """One job."""

    name: str
    ranks: int
    devices: list[int]
    """The device of each rank."""
    makespan_ns: float
    alone_ns: float
    """The same job on the same devices with the machine to itself."""
    slowdown: float


class JobsSummary(Result, msgspec.Struct, kw_only=True):
    """All jobs."""

    jobs: list[JobSummary]
    machine: str
    network: str
    compute: str
    makespan_ns: float
    """The last end of all."""
    shared_links: int
    """Links that more than one job used."""


@dataclass(frozen=True, eq=False, repr=False)
class JobsSimulation(Facts):
    """Jobs that were simulated together."""

    joined: JoinedJobs
    together: Simulation
    summary: JobsSummary

    def facts(self) -> JobsSummary:
        """What `--json` prints."""
        return self.summary

    def runs(self, detail: str = "classes") -> dict[str, Run]:
        """A Run for every job."""
        run = self.together.run(detail)  # type: ignore[arg-type]
        return {name: self.joined.run_of(run, i) for i, name in enumerate(self.joined.names)}


def simulate_jobs(
    jobs: Mapping[str, TraceSet],
    machine: Machine | str,
    *,
    placement: Sequence[Devices] | None = None,
    compute: str = "auto",
    options: SimulationOptions | None = None,
) -> JobsSimulation:
    """Runs jobs at the same time on one machine; without a placement, each on nodes of its own.

    Jobs that share no link come out exactly as alone, so those are not simulated again.
    """
    made = load_machine(machine) if isinstance(machine, str) else machine
    joined = join_jobs(jobs)
    places = list(placement or place_jobs([len(t) for t in jobs.values()], made))
    flat = tuple(device for devices in places for device in devices)
    chosen = replace(options or SimulationOptions(), placement=flat)
    together = simulate(joined.traces, made, compute=compute, options=chosen)
    alone = [
        None
        if apart
        else simulate(traces, made, compute=compute, options=replace(chosen, placement=devices))
        for traces, devices, apart in zip(jobs.values(), places, _apart(made, places), strict=True)
    ]
    summary = JobsSummary(
        jobs=[_job(together, joined, i, places[i], alone[i]) for i in range(len(places))],
        machine=together.summary.machine,
        network=together.summary.network,
        compute=together.summary.compute,
        makespan_ns=together.makespan_ns,
        shared_links=_shared([one.outcome.link_bytes for one in alone if one is not None]),
    )
    return JobsSimulation(joined, together, summary)


def _job(
    together: Simulation,
    joined: JoinedJobs,
    number: int,
    devices: Devices,
    alone: Simulation | None,
) -> JobSummary:
    first = joined.first[number]
    ranks = together.summary.ranks[first : first + len(joined.jobs[number])]
    makespan = max(rank.finish_ns for rank in ranks)
    lone = makespan if alone is None else alone.makespan_ns
    return JobSummary(
        name=joined.names[number],
        ranks=len(ranks),
        devices=list(devices),
        makespan_ns=makespan,
        alone_ns=lone,
        slowdown=makespan / lone if lone else 1.0,
    )


def _shared(moved: Sequence[F64]) -> int:
    """How many links more than one job moved something over."""
    return int((np.sum([m > 0 for m in moved], axis=0) > 1).sum()) if moved else 0


def _reach(machine: Machine, devices: Devices) -> Mask | None:
    """Links on any route between a job's devices; None where there are too many routes to look at."""
    if len(devices) ** 2 > MOST_PAIRS:
        return None
    mine = np.array(devices, np.int64)
    src, dst = np.repeat(mine, len(mine)), np.tile(mine, len(mine))
    out = np.zeros(len(machine.links), np.bool_)
    out[machine.routes(src, dst).links] = True
    return out


def _apart(machine: Machine, places: Sequence[Devices]) -> list[bool]:
    """Which jobs can meet no other on any link."""
    reach = [_reach(machine, devices) for devices in places]
    known = [links for links in reach if links is not None]
    if len(known) < len(reach):
        return [False] * len(reach)
    users = np.sum(known, axis=0)
    return [not bool((users[links] > 1).any()) for links in known]
