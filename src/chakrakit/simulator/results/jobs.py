"""Several jobs on one machine: their placement, which of them share links, and simulating them together.

Jobs that can meet on a link are joined to one TraceSet, rank after rank, and simulated together; each is also
simulated alone, for its slowdown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, Mask
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, FormatError
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.results import Bars, Facts, Result, counted
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results.certainty import has_modelled_host
from chakrakit.simulator.results.simulation import Detail, Simulation, hosted, simulate
from chakrakit.trace.communication import Binding, Body, Groups, canonical_group
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import stored
from chakrakit.trace.sets import CPU, RECORDED_DEVICE, Card, Footprint, Run, Times, TraceSet

Devices = tuple[int, ...]
"""The device of each rank."""


def place_jobs(sizes: Sequence[int], machine: Machine, *, spread: bool = False) -> list[Devices]:
    """The devices of each job, from the numbers of ranks.

    By default every job has its own nodes as long as there are enough; otherwise jobs follow one another
    without gaps. With `spread`, ranks are assigned to all nodes in turn, so that every job uses every node.
    """
    total, each = sum(sizes), machine.node_size
    free = machine.free_devices.tolist()
    if total > len(free):
        raise ConfigError(
            f"{machine.name} has {len(free):,} devices and the jobs {total:,} ranks; ask for more "
            "nodes, as in dgx-h100:32"
        )
    if spread:
        return _in_order(sizes, sorted(free, key=lambda d: (d % each, d // each)))
    nodes = [-(-size // each) for size in sizes]
    if sum(nodes) * each > len(free):
        return _in_order(sizes, free)
    first = [sum(nodes[:i]) * each for i in range(len(nodes))]
    return [tuple(free[at : at + size]) for at, size in zip(first, sizes, strict=True)]


def _in_order(sizes: Sequence[int], devices: Sequence[int]) -> list[Devices]:
    out, at = [], 0
    for size in sizes:
        out.append(tuple(devices[at : at + size]))
        at += size
    return out


def check_places(places: Sequence[Devices]) -> None:
    """Raises an error if two ranks are on one device."""
    used: dict[int, int] = {}
    for job, devices in enumerate(places):
        for device in devices:
            if device in used:
                raise ConfigError(
                    f"device {device} is given to job {used[device]} and job {job} (counted from 0); "
                    "a device runs one rank"
                )
            used[device] = job


def read_job_placement(path: str, names: Sequence[str], sizes: Sequence[int]) -> list[Devices]:
    """The device of each rank of every job, from a file `{"job": [2, 3, 0, 1], …}`."""
    description = f'a placement of jobs (write {{"{names[0]}": [0, 1], …}})'
    devices_by_job = read_json(path, dict[str, tuple[int, ...]], description)
    for name, size in zip(names, sizes, strict=True):
        count = len(devices_by_job.get(name, ()))
        if count != size:
            raise FormatError(
                f"job {name!r} has {size} ranks and the placement {count} devices for it", path=path
            )
    return [devices_by_job[name] for name in names]


# --- jobs that can meet on a link ---------------------------------------------------------------


MOST_PAIRS = 4_000_000
"""Pairs of devices of a job whose routes are computed, those of 2,000 devices; a larger job counts as using
every link."""


def meeting(
    machine: Machine, places: Sequence[Devices], stores: Sequence[Collection[str]]
) -> list[tuple[int, ...]]:
    """Groups of job numbers; jobs of different groups have no link in common on any of their routes.

    `stores` has the names of the stores that each job uses.
    """
    parts: list[tuple[tuple[int, ...], Mask]] = []
    for number, devices in enumerate(places):
        links = _reach(machine, devices) | _to_stores(machine, devices, stores[number])
        mine: tuple[int, ...] = (number,)
        apart = []
        for part, theirs in parts:
            if (links & theirs).any():
                mine, links = (*part, *mine), links | theirs
            else:
                apart.append((part, theirs))
        parts = [*apart, (mine, links)]
    return sorted(tuple(sorted(numbers)) for numbers, _ in parts)


def _reach(machine: Machine, devices: Devices) -> Mask:
    """Links on any route between a job's devices."""
    if len(devices) ** 2 > MOST_PAIRS:
        return np.ones(len(machine.links), np.bool_)
    mine = np.array(devices, np.int64)
    src, dst = np.repeat(mine, len(mine)), np.tile(mine, len(mine))
    out = np.zeros(len(machine.links), np.bool_)
    out[machine.routes(src, dst).links] = True
    return out


def _to_stores(machine: Machine, devices: Devices, names: Collection[str]) -> Mask:
    """Links on any route between a job's devices and the stores it uses."""
    out = np.zeros(len(machine.links), np.bool_)
    mine = np.array(devices, np.int64)
    for number, store in enumerate(machine.stores):
        if store.name in names:
            for writes in (0, 1):
                store_of, way = np.full(len(mine), number), np.full(len(mine), writes)
                out[machine.store_routes(store_of, mine, way).links] = True
    return out


# --- jobs joined to one TraceSet ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JoinedJobs:
    """Jobs, and all of them as one set in which rank r of job j is rank `first[j]` + r."""

    names: tuple[str, ...]
    jobs: tuple[TraceSet, ...]
    first: tuple[int, ...]
    traces: TraceSet

    def run_of(self, run: Run, number: int) -> Run:
        """One job's part of a run of all jobs, with the job's own rank numbers."""
        job, first = self.jobs[number], self.first[number]
        timing = {rank: run.timing[first + rank] for rank in job.ranks}
        used_times = sorted(set(timing.values()))
        place = {old: new for new, old in enumerate(used_times)}
        times = [_ranks_in_job(run.times[old], first) for old in used_times] if run.times else None
        card = job.card.replace(
            name=self.names[number],
            tool=run.card.tool,
            tick_ps=run.card.tick_ps,
            epoch_ns=0,
            settings={**job.card.settings, **run.card.settings, "jobs": list(self.names)},
        )
        shared = {n: run.counters[n] for n in ("links", "storage") if n in run.counters}
        shared |= {
            n: _counted_in_job(run.counters[n], first, len(job))
            for n in _BY_RANK & set(run.counters)
        }
        return Run(
            job.bodies,
            job.bindings,
            job.groups,
            card,
            times=times,
            timing={rank: place[old] for rank, old in timing.items()},
            counters=shared,
        )


_BY_RANK = {"memory", "power", "link_rate"}
"""Counters of ranks; each job has those of its own. Links are the machine's: all of them stay, those at other
jobs' ranks without a rank.
"""


def _counted_in_job(table: pa.Table, first: int, size: int) -> pa.Table:
    """A counter with the job's own rank numbers."""
    rank = table["rank"].to_numpy() - first
    mine = (rank >= 0) & (rank < size)
    place = table.schema.get_field_index("rank")
    renumbered = table.set_column(
        place, table.schema.field("rank"), pa.array(np.where(mine, rank, -1))
    )
    return renumbered if "link" in table.column_names else renumbered.filter(pa.array(mine))


def _ranks_in_job(times: Times, first: int) -> Times:
    if times.binding_rank is None:
        return times
    moved = np.where(times.binding_rank >= 0, times.binding_rank - first, -1).astype(np.int32)
    return replace(times, binding_rank=moved)


def join_jobs(jobs: Mapping[str, TraceSet]) -> JoinedJobs:
    """All jobs as one set; every job must be complete."""
    bodies: list[Body] = []
    bindings: dict[int, Binding] = {}
    groups: dict[str, Sequence[int]] = {}
    firsts, first = [], 0
    for name, traces in jobs.items():
        if traces.missing_ranks or traces.ranks != tuple(range(len(traces))):
            raise ConfigError(f"job {name!r} lacks ranks; record or generate all of them")
        firsts.append(first)
        groups[f"{name}/"] = range(first, first + len(traces))
        groups |= {f"{name}/{g}": [first + r for r in m] for g, m in traces.groups.items()}
        uses = [_uses(traces.body_at(b)) for b in range(traces.body_count)]
        for rank, binding in traces.bindings.items():
            bindings[first + rank] = _moved(
                binding, uses[binding.body], traces, name, first, len(bodies)
            )
        bodies += [traces.reader_of(b) for b in range(traces.body_count)]
        first += len(traces)
    joined = TraceSet(bodies, bindings, Groups(groups), _joint_card(jobs))
    return JoinedJobs(tuple(jobs), tuple(jobs.values()), tuple(firsts), joined)


def _joint_card(jobs: Mapping[str, TraceSet]) -> Card:
    """What decides how jobs are timed: their tool, the device that they were recorded on, a modelled host."""
    cards = [traces.card for traces in jobs.values()]
    tools = {card.tool for card in cards}
    devices = {str(card.settings.get(RECORDED_DEVICE, "")) for card in cards}
    recorded = sorted(devices - {""})
    if len(recorded) > 1 or (recorded == [CPU] and "" in devices):
        each = ", ".join(
            f"{name} on {t.card.settings.get(RECORDED_DEVICE, 'none')}" for name, t in jobs.items()
        )
        raise ConfigError(
            f"jobs were recorded on different devices ({each}), whose times cannot be carried to a machine "
            "together; give each the machine's times first: "
            "chakra transform JOB --pass 'recost{machine=NAME}' -o OUT"
        )
    return Card(
        tool=tools.pop() if len(tools) == 1 else "",
        settings={RECORDED_DEVICE: recorded[0]} if recorded else {},
        passes=["launched"] if any(map(has_modelled_host, cards)) else [],
    )


def _uses(body: Trace) -> tuple[list[str], list[int]]:
    """The groups and peers that a body names; a call without a group uses all ranks."""
    names = set()
    if "pg_name" in body.table.column_names:
        names = {n or "" for n in body.table["pg_name"].unique().to_pylist()}
    peers = {int(p) for end in ("comm_src", "comm_dst") for p in np.unique(body.column(end, -1))}
    return sorted({"", *names}), sorted(peers - {-1})


def _moved(
    binding: Binding,
    uses: tuple[list[str], list[int]],
    traces: TraceSet,
    job: str,
    first: int,
    bodies: int,
) -> Binding:
    def group(role: str) -> str:
        name = binding.groups.get(role, role)
        return f"{job}/{canonical_group(name, traces.groups)}"

    roles, peers = uses
    return Binding(
        bodies + binding.body,
        {role: group(role) for role in roles},
        {peer: first + binding.peers.get(peer, peer) for peer in peers},
        binding.scale,
    )


# --- simulating jobs together and alone ---------------------------------------------------------


class JobSummary(Result, msgspec.Struct, kw_only=True):
    """One job of a simulation of several: its time, and its time alone."""

    name: str
    ranks: int
    devices: list[int]
    """The device of each rank."""
    makespan_ns: float
    alone_ns: float
    """The makespan of the same job on the same devices, with nothing else on the machine."""
    slowdown: float
    interval_ns: tuple[float, float] | None = None
    """Where 90 of 100 measured makespans should lie: that of the job alone, times its slowdown."""
    fits: bool | None = None
    """Whether every rank's peak fits its device; None where the trace or the machine lacks the figures."""
    needs_bytes: int | None = None
    """The memory that the tightest rank needs; `has_bytes` is that of its device."""
    has_bytes: int | None = None
    tightest_rank: int | None = None


class JobsSummary(Result, msgspec.Struct, kw_only=True):
    """The summary of several jobs on one machine."""

    jobs: list[JobSummary]
    machine: str
    network: str
    compute: str
    makespan_ns: float
    """The end of the last job."""
    shared_links: int
    """Links that more than one job used."""

    def picture(self) -> Bars:
        """Bars of each job's slowdown against running alone."""
        rows = [(job.name, job.slowdown, f"{job.slowdown:.3f} ×") for job in self.jobs]
        return Bars(f"{counted(len(rows), 'job')} on {self.machine}: time against alone", rows)


@dataclass(frozen=True, eq=False)
class MeetingJobs:
    """Jobs that can meet on links, simulated together and each alone on its devices."""

    numbers: tuple[int, ...]
    """Their places among all jobs."""
    joined: JoinedJobs
    together: Simulation
    alone: tuple[Simulation, ...]

    def makespan_ns(self, place: int) -> float:
        """The makespan of the job at this place among `numbers`."""
        first = self.joined.first[place]
        ranks = self.together.summary.ranks[first : first + len(self.joined.jobs[place])]
        return max(rank.finish_ns for rank in ranks)

    def interval_ns(self, place: int) -> tuple[float, float] | None:
        """Where its makespan should lie: slower jobs are surer in nothing, so that the share stays."""
        alone = self.alone[place]
        if alone.summary.interval_ns is None or not alone.makespan_ns:
            return None
        low, high = alone.summary.interval_ns
        slowdown = self.makespan_ns(place) / alone.makespan_ns
        return low * slowdown, high * slowdown

    def job_run(self, run: Run, place: int) -> Run:
        """The job's part of a run of all, with the interval of its own times on its card."""
        mine, alone = self.joined.run_of(run, place), self.alone[place].summary
        footprint = Footprint(
            extrapolated_share=alone.extrapolated_share,
            compute_error=alone.compute_error,
            interval_ns=self.interval_ns(place),
            modelled=alone.modelled,
            rung=alone.rung,
        )
        return mine.with_card(footprint.put(mine.card))


@dataclass(frozen=True, eq=False, repr=False)
class JobsSimulation(Facts):
    """The result of simulating jobs on one machine at the same time."""

    parts: tuple[MeetingJobs, ...]
    """Groups of jobs, simulated separately because jobs of different groups share no link."""
    summary: JobsSummary

    def facts(self) -> JobsSummary:
        """The summary that `--json` prints."""
        return self.summary

    def runs(self, detail: Detail = "classes") -> dict[str, Run]:
        """The Run of every job, by name."""
        run_by_job: dict[str, Run] = {}
        for part in self.parts:
            run = part.together.run(detail)
            run_by_job |= {name: part.job_run(run, i) for i, name in enumerate(part.joined.names)}
        return {job.name: run_by_job[job.name] for job in self.summary.jobs}


def simulate_jobs(
    jobs: Mapping[str, TraceSet],
    machine: Machine | str,
    *,
    placement: Sequence[Devices] | None = None,
    compute: str = "auto",
    options: SimulationOptions | None = None,
) -> JobsSimulation:
    """Simulates jobs at the same time on one machine; without a placement, each has its own nodes.

    Ranks in stragglers and faults are numbered through all jobs, in order. Jobs that share no link have
    exactly their times alone, because they are simulated alone.
    """
    loaded = load_machine(machine) if isinstance(machine, str) else machine
    places = list(placement or place_jobs([len(t) for t in jobs.values()], loaded))
    check_places(places)
    shared = options or SimulationOptions()
    jobs = {name: hosted(traces, shared.host) for name, traces in jobs.items()}
    firsts = np.cumsum([0, *(len(devices) for devices in places)]).tolist()
    shared.disturbance.check_ranks(range(firsts[-1]))

    def run(numbers: tuple[int, ...]) -> tuple[JoinedJobs, Simulation]:
        joined = join_jobs({name: jobs[name] for name in (list(jobs)[i] for i in numbers)})
        ranks = [r for i in numbers for r in range(firsts[i], firsts[i + 1])]
        job_options = replace(
            shared,
            placement=tuple(device for i in numbers for device in places[i]),
            disturbance=shared.disturbance.of(ranks),
            jobs=joined.first,
            host=False,  # jobs have theirs already
        )
        return joined, simulate(joined.traces, loaded, compute=compute, options=job_options)

    parts = []
    for numbers in meeting(loaded, places, [_stores(traces) for traces in jobs.values()]):
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
    first = parts[0].together.summary
    return JobsSummary(
        jobs=[jobs[i] for i in sorted(jobs)],
        machine=first.machine,
        network=first.network,
        compute=first.compute,
        makespan_ns=max(part.together.makespan_ns for part in parts),
        shared_links=_shared(
            [simulation.outcome.link_bytes for part in parts for simulation in part.alone]
        ),
    )


def _job(part: MeetingJobs, place: int, devices: Devices) -> JobSummary:
    makespan, alone = part.makespan_ns(place), part.alone[place].makespan_ns
    memory = ("fits", "needs_bytes", "has_bytes", "tightest_rank")
    return JobSummary(
        name=part.joined.names[place],
        ranks=len(devices),
        devices=list(devices),
        makespan_ns=makespan,
        alone_ns=alone,
        slowdown=makespan / alone if alone else 1.0,
        interval_ns=part.interval_ns(place),
        **{name: getattr(part.alone[place].summary, name) for name in memory},
    )


def _shared(moved: Sequence[F64]) -> int:
    """The number of links that more than one job used."""
    return int((np.sum([m > 0 for m in moved], axis=0) > 1).sum())
