"""From any trace to a plan of waits and communication: what `emulate` and `comm` replay.

Every node keeps its dependencies; compute takes its recorded time (none, in `comm`) without doing
anything, and communication is real. So a network can be exercised with no accelerator and no model,
also by traces that never ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from chakrakit.errors import TraceError
from chakrakit.replayer.plan import (
    FORMAT,
    VERSION,
    WORLD_NAME,
    Group,
    RankPlan,
    ReplayOptions,
    World,
)
from chakrakit.replayer.recording import Recording
from chakrakit.trace.model import CollectiveType, EdgeKind, NodeType

_OPS = {
    CollectiveType.ALL_REDUCE: "all_reduce",
    CollectiveType.ALL_GATHER: "all_gather_flat",
    CollectiveType.REDUCE_SCATTER: "reduce_scatter_flat",
    CollectiveType.REDUCE_SCATTER_BLOCK: "reduce_scatter_flat",
    CollectiveType.ALL_TO_ALL: "all_to_all_flat",
    CollectiveType.BROADCAST: "broadcast",
    CollectiveType.REDUCE: "reduce",
    CollectiveType.BARRIER: "barrier",
}
_WORK = (EdgeKind.THREAD, EdgeKind.STREAM)
"""Kinds of edges that order communication only by who carried it out."""


class Exchanged(msgspec.Struct, omit_defaults=True):
    """A node's communication: bytes this rank puts in and gets; -1 as group for what is not done."""

    op: str
    group: int
    input: int = 0
    output: int = 0
    root: int = 0
    tag: int = 0
    in_splits: list[int] = []
    out_splits: list[int] = []


class EmulationPlan(RankPlan, kw_only=True):
    """One rank's nodes: durations, when they may start at the earliest, and what they wait for.

    `waits` has, for every node, [node, form, lag_ns] for each dependency; forms are 0 finish→start,
    1 start→start, 2 finish→finish. `lanes` are resources that do one node at a time; -1 for none.
    """

    durations: list[int]
    release: list[int]
    lanes: list[int]
    waits: list[list[tuple[int, int, int]]]
    communication: dict[int, Exchanged]
    order: list[int]
    """Communication in the order of issue."""


@dataclass(frozen=True)
class _Place:
    """Which rank of which world a plan is for."""

    seen: Recording
    world: World
    rank: int
    groups: list[Group]
    shrink: str


def emulate_rank(
    seen: Recording, world: World, rank: int, groups: list[Group], options: ReplayOptions
) -> EmulationPlan:
    """The plan of one rank."""
    trace = seen.trace
    if options.mode == "emulate" and not trace.duration_ns.any():
        raise TraceError(
            f"rank {seen.rank} has no times to wait for; simulate the trace first "
            "(chakra simulate -o RUN), or use --mode comm"
        )
    place = _Place(seen, world, rank, groups, options.shrink)
    found = {row: _exchanged(place, row) for row in np.flatnonzero(seen.is_comm).tolist()}
    timed = options.mode == "emulate"
    durations = np.where(seen.is_comm, 0, trace.own_ns) if timed else np.zeros(len(trace), int)
    for row, exchanged in found.items():
        if exchanged.group < 0 and timed:
            durations[row] = trace.duration_ns[row]
    done = sum(e.group >= 0 for e in found.values())
    spent = [int(trace.duration_ns[r]) * (found[r].group >= 0) for r in found]
    return EmulationPlan(
        format=FORMAT,
        version=VERSION,
        mode=options.mode,
        rank=rank,
        recorded_rank=seen.rank,
        world=world.size,
        device=options.device,
        backend=options.backend_name,
        groups=groups,
        durations=durations.tolist(),
        release=_release(seen, timed),
        lanes=_lanes(seen),
        waits=_waits(seen, timed),
        communication=found,
        order=_order(seen, list(found)),
        memory={
            options.device: sum(
                max((getattr(e, side) for e in found.values()), default=0)
                for side in ("input", "output")
            )
        },
        count=[done, len(found)],
        time_ns=[sum(spent), int(trace.duration_ns[list(found)].sum())],
    )


def _order(seen: Recording, rows: list[int]) -> list[int]:
    """As the host asked for them; in traces that never ran, none before what it depends on."""
    start = seen.trace.start_ns
    level = seen.trace.graph.levels() if seen.level is None else seen.level

    def key(row: int) -> tuple[int, int, int]:
        issuer = seen.issuers.get(row, -1)
        return int(start[issuer if issuer >= 0 else row]), int(level[row]), row

    return sorted(rows, key=key)


def _release(seen: Recording, timed: bool) -> list[int]:
    """Nodes that wait for nothing start when they did; the others when they can."""
    trace = seen.trace
    if not timed or not trace.is_timed:
        return [0] * len(trace)
    free = np.ones(len(trace), np.bool_)
    free[trace.edges.dst] = False
    start = trace.start_ns - trace.start_ns.min()
    found: list[int] = np.where(free, start, 0).tolist()
    return found


def _lanes(seen: Recording) -> list[int]:
    """One a stream or thread whose order no edge says; compute without a stream shares one."""
    trace = seen.trace
    kinds = set(np.unique(trace.edges.kind).tolist())
    ordered = {int(k) for k in (*_WORK, EdgeKind.CALL)} & kinds
    if ordered:
        return [-1] * len(trace)
    compute = trace.is_type(NodeType.COMP_NODE)
    named = np.where(compute, trace.column("stream", 0), -1)
    _, number = np.unique(named, return_inverse=True)
    found: list[int] = np.where(compute, number, -1).tolist()
    return found


def _waits(seen: Recording, timed: bool) -> list[list[tuple[int, int, int]]]:
    edges, comm = seen.trace.edges, seen.is_comm
    carried = np.isin(edges.kind, [int(k) for k in _WORK]) & comm[edges.src] & comm[edges.dst]
    lag = edges.lag if timed else np.zeros(len(edges.lag), np.int64)
    out: list[list[tuple[int, int, int]]] = [[] for _ in range(len(seen))]
    rows = np.flatnonzero(~carried)
    columns = (edges.src, edges.dst, edges.form, lag)
    for src, dst, form, wait in zip(*(c[rows].tolist() for c in columns), strict=True):
        # A kernel follows its launch by however long the queue was; that is the backend's own.
        out[dst].append((src, form, 0 if comm[dst] else max(wait, 0)))
    return out


def _exchanged(place: _Place, row: int) -> Exchanged:
    trace = place.seen.trace
    size = place.seen.number("comm_size", row, 0)
    if size < 0:
        raise TraceError(f"{place.seen.place(row)}: a comm_size of {size}")
    if trace.types[row] != NodeType.COMM_COLL_NODE:
        return _message(place, row, size)
    kind = place.seen.number("comm_type", row, -1)
    name = place.seen.group_names[row] or WORLD_NAME
    at = place.seen.place(row)
    members = place.world.recorded_members(name, place.seen.rank, at)
    here = place.world.here(members, place.rank)
    op = next((op for code, op in _OPS.items() if int(code) == kind), "")
    if not op:
        return Exchanged("unknown", -1)
    group = next(i for i, g in enumerate(place.groups) if g.name == name and g.ranks == here)
    found = Exchanged(op, group, input=size, output=size)
    return _sized(
        found, place, row, len(members), [members.index(place.world.recorded_rank(r)) for r in here]
    )


def _sized(found: Exchanged, place: _Place, row: int, old: int, places: list[int]) -> Exchanged:
    """Bytes in and out in a group of so many."""
    new, size, keep = len(places), found.input, place.shrink == "keep"
    if found.op == "all_gather_flat":
        found.input = size if keep else size * old // new
        found.output = found.input * new
    elif found.op == "reduce_scatter_flat":
        found.output = size // old if keep else size // new
        found.input = found.output * new
    elif found.op == "all_to_all_flat":
        back = place.seen.number("out_size", row, -1)
        back = size if back < 0 else back
        even = old if keep else new
        found.in_splits = _shares(place, row, "in_splits", size, even, old, places)
        found.out_splits = _shares(place, row, "out_splits", back, even, old, places)
        found.input, found.output = sum(found.in_splits), sum(found.out_splits)
    return found


def _shares(
    place: _Place, row: int, column: str, size: int, even: int, old: int, places: list[int]
) -> list[int]:
    """Bytes to or from each member here: as recorded in elements, else one of `even` equal parts."""
    splits = place.seen.trace[row].get(column) or []
    total = sum(splits)
    if len(splits) != old or total <= 0 or min(splits) < 0:
        return [size // even] * len(places)
    return [size * int(splits[i]) // total for i in places]


def _message(place: _Place, row: int, size: int) -> Exchanged:
    trace = place.seen.trace
    send = trace.types[row] == NodeType.COMM_SEND_NODE
    peer = place.seen.number("comm_dst" if send else "comm_src", row, -1)
    if peer < 0:
        raise TraceError(f"{place.seen.place(row)} does not say its other end")
    here = place.world.here([peer], place.rank)
    tag = place.seen.number("comm_tag", row, 0)
    if not here or here[0] == place.rank:
        return Exchanged("send" if send else "recv", -1)
    everybody = list(range(place.world.size))
    group = next((i for i, g in enumerate(place.groups) if g.ranks == everybody), -1)
    if group < 0:
        group = next(
            i for i, g in enumerate(place.groups) if here[0] in g.ranks and place.rank in g.ranks
        )
    root = place.groups[group].ranks.index(here[0])
    found = Exchanged("send" if send else "recv", group, root=root, tag=tag)
    if send:
        found.input = size
    else:
        found.output = size
    return found
