"""Several jobs as one TraceSet: ranks one job after another, groups and peers each job's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Binding, Body, Groups, canonical_group
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times, TraceSet


@dataclass(frozen=True, eq=False)
class JoinedJobs:
    """The jobs, and all of them as one set: rank r of job j is rank `first[j]` + r there."""

    names: tuple[str, ...]
    jobs: tuple[TraceSet, ...]
    first: tuple[int, ...]
    traces: TraceSet

    def run_of(self, run: Run, number: int) -> Run:
        """One job's part of a run of all of them, under its own rank numbers."""
        job, first = self.jobs[number], self.first[number]
        timing = {rank: run.timing[first + rank] for rank in job.ranks}
        kept = sorted(set(timing.values()))
        place = {old: new for new, old in enumerate(kept)}
        times = [_own_ranks(run.times[old], first) for old in kept] if run.times else None
        card = job.card.replace(
            name=self.names[number],
            tool=run.card.tool,
            tick_ps=run.card.tick_ps,
            epoch_ns=0,
            settings={**job.card.settings, **run.card.settings, "jobs": list(self.names)},
        )
        shared = {n: run.counters[n] for n in ("links", "storage") if n in run.counters}
        return Run(
            job.bodies,
            job.bindings,
            job.groups,
            card,
            times=times,
            timing={rank: place[old] for rank, old in timing.items()},
            counters=shared,
        )


def _own_ranks(times: Times, first: int) -> Times:
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
    joined = TraceSet(bodies, bindings, Groups(groups))
    return JoinedJobs(tuple(jobs), tuple(jobs.values()), tuple(firsts), joined)


def _uses(body: Trace) -> tuple[list[str], list[int]]:
    """The groups and peers that a body names; a call without a group means all ranks."""
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
