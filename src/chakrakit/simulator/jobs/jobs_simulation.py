"""Several jobs simulated together, and each against running alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine
from chakrakit.results import Bars, Facts, Result, counted
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.jobs.joined_jobs import JoinedJobs, join_jobs
from chakrakit.simulator.jobs.meeting import meeting
from chakrakit.simulator.jobs.placement import Devices, check_places, place_jobs
from chakrakit.simulator.results import Detail, Simulation, simulate
from chakrakit.trace.placement import stored
from chakrakit.trace.sets import Run, TraceSet


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

    def picture(self) -> Bars:
        """Each job against running alone."""
        rows = [(job.name, job.slowdown, f"{job.slowdown:.3f} ×") for job in self.jobs]
        return Bars(f"{counted(len(rows), 'job')} on {self.machine}: time against alone", rows)


@dataclass(frozen=True, eq=False)
class MeetingJobs:
    """Jobs that can meet on links, simulated together, and each alone on its own devices."""

    numbers: tuple[int, ...]
    """Their places among all jobs."""
    joined: JoinedJobs
    together: Simulation
    alone: tuple[Simulation, ...]

    def makespan_ns(self, place: int) -> float:
        """The last end of the job at this place of the part."""
        first = self.joined.first[place]
        ranks = self.together.summary.ranks[first : first + len(self.joined.jobs[place])]
        return max(rank.finish_ns for rank in ranks)


@dataclass(frozen=True, eq=False, repr=False)
class JobsSimulation(Facts):
    """Jobs that were simulated on one machine at the same time."""

    parts: tuple[MeetingJobs, ...]
    """Jobs of different parts can meet on no link, so that each part is simulated by itself."""
    summary: JobsSummary

    def facts(self) -> JobsSummary:
        """What `--json` prints."""
        return self.summary

    def runs(self, detail: Detail = "classes") -> dict[str, Run]:
        """A Run for every job."""
        found: dict[str, Run] = {}
        for part in self.parts:
            run = part.together.run(detail)
            found |= {name: part.joined.run_of(run, i) for i, name in enumerate(part.joined.names)}
        return {job.name: found[job.name] for job in self.summary.jobs}


def simulate_jobs(
    jobs: Mapping[str, TraceSet],
    machine: Machine | str,
    *,
    placement: Sequence[Devices] | None = None,
    compute: str = "auto",
    options: SimulationOptions | None = None,
) -> JobsSimulation:
    """Runs jobs at the same time on one machine; without a placement, each on nodes of its own.

    Ranks in stragglers and faults are counted through all jobs, in order. Jobs that share no link come
    out exactly as alone, because they are simulated alone.
    """
    made = load_machine(machine) if isinstance(machine, str) else machine
    places = list(placement or place_jobs([len(t) for t in jobs.values()], made))
    check_places(places)
    chosen = options or SimulationOptions()
    firsts = np.cumsum([0, *(len(devices) for devices in places)]).tolist()
    chosen.disturbance.check_ranks(range(firsts[-1]))

    def run(numbers: tuple[int, ...]) -> tuple[JoinedJobs, Simulation]:
        joined = join_jobs({name: jobs[name] for name in (list(jobs)[i] for i in numbers)})
        ranks = [r for i in numbers for r in range(firsts[i], firsts[i + 1])]
        own = replace(
            chosen,
            placement=tuple(device for i in numbers for device in places[i]),
            disturbance=chosen.disturbance.of(ranks),
            jobs=joined.first,
        )
        return joined, simulate(joined.traces, made, compute=compute, options=own)

    parts = []
    for numbers in meeting(made, places, [_stores(traces) for traces in jobs.values()]):
        joined, together = run(numbers)
        alone = [run((i,))[1] for i in numbers] if len(numbers) > 1 else [together]
        parts.append(MeetingJobs(numbers, joined, together, tuple(alone)))
    return JobsSimulation(tuple(parts), _summary(parts, places))


def _stores(traces: TraceSet) -> set[str]:
    """The stores that a job reads from or writes to."""
    bodies = (traces.body_at(b) for b in range(traces.body_count))
    return {str(n) for body in bodies for n in body.column("storage", "")[stored(body)]}


def _summary(parts: Sequence[MeetingJobs], places: Sequence[Devices]) -> JobsSummary:
    jobs = {i: _job(part, k, places[i]) for part in parts for k, i in enumerate(part.numbers)}
    some = parts[0].together.summary
    return JobsSummary(
        jobs=[jobs[i] for i in sorted(jobs)],
        machine=some.machine,
        network=some.network,
        compute=some.compute,
        makespan_ns=max(part.together.makespan_ns for part in parts),
        shared_links=_shared([one.outcome.link_bytes for part in parts for one in part.alone]),
    )


def _job(part: MeetingJobs, place: int, devices: Devices) -> JobSummary:
    makespan, alone = part.makespan_ns(place), part.alone[place].makespan_ns
    return JobSummary(
        name=part.joined.names[place],
        ranks=len(devices),
        devices=list(devices),
        makespan_ns=makespan,
        alone_ns=alone,
        slowdown=makespan / alone if alone else 1.0,
    )


def _shared(moved: Sequence[F64]) -> int:
    """How many links more than one job moved something over."""
    return int((np.sum([m > 0 for m in moved], axis=0) > 1).sum())
