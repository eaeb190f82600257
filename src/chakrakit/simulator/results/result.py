"""A simulation's outcome as a Run: times by class, what each node waited for, and counters."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Outcome
from chakrakit.simulator.results.history import history_table
from chakrakit.simulator.results.storage import server_uses
from chakrakit.simulator.results.summary import class_memory
from chakrakit.trace.counters import as_recorded, storage_table
from chakrakit.trace.placement import nested_ends
from chakrakit.trace.sets import Run, Times

Detail = Literal["summary", "classes", "full"]
"""`summary`: times only; `classes`: also what each node waited for, as the class's first rank did;
`full`: that for every rank by itself, which unfolds the run on disk where peers differ."""


def to_run(
    outcome: Outcome, machine: Machine, settings: dict[str, Any], detail: Detail = "classes"
) -> Run:
    """The traces with their simulated times, in picoseconds."""
    traces = outcome.membership.traces
    times = [_times(outcome, c, detail != "summary") for c in range(outcome.classes.count)]
    timing = {rank: int(c) for rank, c in zip(traces.ranks, outcome.classes.rank, strict=True)}
    # What the workload is stays known; how a recording was taken concerns its times alone.
    history = history_table(outcome)
    workload = as_recorded(traces.card.settings, history is not None)
    workload.pop("undilate", None)
    card = traces.card.replace(
        tool="chakra simulate",
        settings={**workload, "engine": "native", **settings},
        tick_ps=1,
        epoch_ns=0,
    )
    counters: dict[str, Any] = {
        "links": link_table(outcome, machine),
        "collectives": collective_table(outcome),
    }
    if outcome.stored is not None:
        counters["storage"] = storage_table(server_uses(outcome, machine))
    memory = history or memory_table(outcome)
    if memory is not None:
        counters["memory"] = memory
    if detail == "full":
        times, timing = _unfolded(outcome, times)
    return Run(
        traces.bodies,
        traces.bindings,
        traces.groups,
        card,
        times=times,
        timing=timing,
        counters=counters,
    )


def _times(outcome: Outcome, c: int, why: bool) -> Times:
    rows = outcome.rows(c)
    start, end = outcome.start[rows].copy(), outcome.end[rows].copy()
    end = nested_ends(outcome.program(c).trace, start, end, per_ns=1000)
    if not why:
        return Times(start, end)
    binding = outcome.binding[rows]
    owner = np.searchsorted(outcome.offset, binding, "right") - 1
    known = binding >= 0
    row = np.where(known, binding - outcome.offset[np.maximum(owner, 0)], -1).astype(np.int32)
    ranks = np.array(outcome.membership.ranks, np.int64)[outcome.classes.first]
    other = known & (owner != c)
    rank = np.where(other, ranks[np.maximum(owner, 0)], -1).astype(np.int32)
    return Times(start, end, row, rank, outcome.reason[rows].copy())


def _unfolded(outcome: Outcome, times: list[Times]) -> tuple[list[Times], dict[int, int]]:
    """Peers by their real rank: of those of the binding class, the one in the same group or pair."""
    members = [set(g.members.tolist()) for g in outcome.membership.groups]
    out: list[Times] = []
    timing: dict[int, int] = {}
    for i, rank in enumerate(outcome.membership.ranks):
        timing[rank] = len(out)
        shared = times[int(outcome.classes.rank[i])]
        near = set().union(*(members[g] for g in outcome.membership.group_of[i]))
        near |= set(outcome.membership.communication.peers(i).tolist())
        assert shared.binding_rank is not None
        moved = shared.binding_rank.copy()
        for other in np.unique(moved[moved >= 0]).tolist():
            moved[shared.binding_rank == other] = _alike(outcome, other, near)
        out.append(Times(shared.start, shared.end, shared.binding_row, moved, shared.reason))
    return out, timing


def _alike(outcome: Outcome, rank: int, near: set[int]) -> int:
    index = outcome.membership.index
    wanted = outcome.classes.rank[index[rank]]
    same = [r for r in sorted(near) if r in index and outcome.classes.rank[index[r]] == wanted]
    return same[0] if same else rank


def link_table(outcome: Outcome, machine: Machine) -> dict[str, Any]:
    """Every link that carried something: ends, bytes, time at full rate, share of the makespan."""
    names = machine.vertex_names()
    used = np.flatnonzero(outcome.link_bytes > 0)
    links = machine.links
    busy = outcome.link_bytes[used] / links.bandwidth[used] * 1e9
    makespan = outcome.makespan_ps / 1000
    return {
        "link": [str(i) for i in used.tolist()],
        "src": [names[v] for v in links.src[used]],
        "dst": [names[v] for v in links.dst[used]],
        "bandwidth": links.bandwidth[used],
        "bytes": outcome.link_bytes[used],
        "busy_ns": busy,
        "full_rate": outcome.full_rate[used],
        "full_since_ns": outcome.full_since[used] / 1000,
        "utilization": busy / makespan if makespan else busy * 0,
    }


def collective_table(outcome: Outcome) -> dict[str, Any]:
    """Every instance of the simulated classes: what, group, algorithm, last arrival and end."""
    instances = outcome.instances
    kept = [i for i in range(len(instances.what)) if i not in instances.served]
    what = [instances.what[i] for i in kept]
    kinds, groups, seqs = zip(*what, strict=True) if what else ((), (), ())
    return {
        "collective": pa.array(kinds, pa.string()),
        "group": pa.array(groups, pa.string()),
        "seq": pa.array(seqs, pa.int64()),
        "algorithm": pa.array([instances.algorithm[i] for i in kept], pa.string()),
        "comm_size": pa.array([instances.size[i] for i in kept], pa.int64()),
        "copies": pa.array([len(instances.jobs[i]) for i in kept], pa.int64()),
        "arrival_ns": outcome.began[kept] / 1000,
        "end_ns": outcome.ended[kept] / 1000,
    }


def memory_table(outcome: Outcome) -> dict[str, Any] | None:
    """Bytes held over time, by the lowest rank of each class."""
    ranks, times, held = [], [], []
    for c in range(outcome.classes.count):
        memory = class_memory(outcome, c)
        if memory is not None:
            rows = outcome.rows(c)
            time, after = memory.timeline(outcome.start[rows], outcome.end[rows])
            rank = outcome.membership.ranks[int(outcome.classes.first[c])]
            ranks.append(np.full(len(time), rank))
            times.append(time // 1000)
            held.append(after)
    if not ranks:
        return None
    joined = (np.concatenate(part) for part in (ranks, times, held))
    return dict(zip(("rank", "time_ns", "bytes"), joined, strict=True))
