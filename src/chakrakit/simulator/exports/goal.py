"""Traces as GOAL schedules: collectives become the messages of the algorithm that is chosen for them.

A compute node becomes a `calc` on the cpu of its stream, a message a `send` or a `recv` on a cpu of their
own, so that computation goes on beside them. A collective begins and ends with a `calc 0`; between them
every member sends and receives what the algorithm's steps say, each step after what this member did in
those before it. Finish→start edges become `requires`, start→start edges `irequires`; where an end waits
for another, a `calc 0` stands for both.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import (
    COLLECTIVES,
    SWITCH,
    Algorithms,
    CollectiveSteps,
    TransferStep,
    data_bytes,
    grid_of,
    possible,
    shapes,
)
from chakrakit.simulator.engine import TransferPlans
from chakrakit.sources.foreign import ANY, CALC, RECV, SEND, GoalRank
from chakrakit.trace.model import EdgeForm, NodeType, Trace
from chakrakit.trace.placement import lane_of
from chakrakit.trace.sets import TraceSet

_LAST_CPU = 254
"""The number of a cpu is a byte in the binary form; one more is for communication."""


@dataclass
class GoalSchedule:
    """The operations of all ranks, and what a schedule has no place for: what → how many."""

    ranks: list[GoalRank]
    left_out: Counter[str] = field(default_factory=Counter)
    algorithms: Counter[str] = field(default_factory=Counter)
    """How many collectives were expanded by which algorithm."""


def one_switch(ranks: int) -> Machine:
    """A machine for algorithms to be chosen on where none is given."""
    network = {
        "topology": "switch", "size": max(ranks, 2), "bandwidth": 50e9, "latency": 1e-6,
    }  # fmt: skip
    return parse_machine({"network": [network]}, "one switch")


def goal_of(
    traces: TraceSet, machine: Machine | None = None, algorithms: Mapping[str, str] | None = None
) -> GoalSchedule:
    """The schedule of traces; algorithms are those given, or the fastest on the machine."""
    if traces.ranks != tuple(range(len(traces.ranks))):
        raise ConfigError("GOAL has ranks from 0 on without gaps; select them or record all")
    machine = machine or one_switch(len(traces))
    return _Expansion(traces, machine, Algorithms(dict(algorithms or {}))).schedule


def chosen_steps(
    machine: Machine, algorithms: Algorithms, collective: str, members: tuple[int, ...], size: int
) -> CollectiveSteps:
    """The messages of a collective by the algorithm given for it, or the fastest on the machine."""
    if len(members) == 1:
        return CollectiveSteps(1, 1, ())
    data = int(data_bytes(collective, size, len(members)))
    devices = np.array([members], np.int64)
    shape, grid = shapes(machine, devices)[0], grid_of(machine, devices[0])

    def steps(name: str) -> CollectiveSteps:
        return algorithms.moves(collective, name, data, shape, 0, grid)

    asked = algorithms.asked(collective, shape)
    if asked:
        return steps("ring" if asked == "in-switch" else asked)  # a switch takes no messages
    schedules = {n: steps(n) for n in possible(collective, shape) if n != "in-switch"}
    return schedules[TransferPlans(machine).fastest(schedules, devices, data)]


class _Expansion:
    def __init__(self, traces: TraceSet, machine: Machine, algorithms: Algorithms) -> None:
        if machine.size < len(traces):
            raise ConfigError(f"{machine.name} has {machine.size} devices for {len(traces)} ranks")
        self.traces, self.machine, self.algorithms = traces, machine, algorithms
        self.schedule = GoalSchedule([GoalRank() for _ in traces.ranks])
        self.steps: dict[tuple[str, int, tuple[int, ...], int], CollectiveSteps] = {}
        self.messages_on: list[int] = []
        """The cpu of collectives' messages, by rank: the one after those of its own lanes."""
        self.begin: list[I64] = []
        self.end: list[I64] = []
        for rank in traces.ranks:
            self._nodes(rank, traces.trace(rank))
        self.free_tags = self._free_tags()
        self._collectives()
        for rank in traces.ranks:
            self._edges(rank, traces.trace(rank))

    def _nodes(self, rank: int, trace: Trace) -> None:
        """Adds an operation for every node; a collective's two ends come with its messages."""
        out, cpu = self.schedule.ranks[rank], _cpus(trace)
        columns = {
            n: trace.column(n, 0).astype(np.int64)
            for n in ("comm_src", "comm_dst", "comm_size", "comm_tag")
        }
        own, nic = np.maximum(trace.own_ns, 0), _optional(trace, "nic")
        types, begin = trace.column("type", 0), np.zeros(len(trace), np.int64)
        names = trace.names.to_pylist()
        for row in range(len(trace)):
            kind = int(types[row])
            if kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
                sends = kind == NodeType.COMM_SEND_NODE
                peer = int(columns["comm_dst" if sends else "comm_src"][row])
                size, tag = int(columns["comm_size"][row]), int(columns["comm_tag"][row]) % 2**32
                way = SEND if sends else RECV
                begin[row] = out.add(
                    way, size, peer, tag, int(cpu[row]), int(nic[row]), str(names[row])
                )
            else:
                took = 0 if kind == NodeType.COMM_COLL_NODE else int(own[row])
                begin[row] = out.add(CALC, took, 0, 0, int(cpu[row]), 0, str(names[row]))
        self.messages_on.append(int(cpu.max(initial=0)) + 1)
        self.begin.append(begin)
        self.end.append(begin.copy())

    def _free_tags(self) -> Iterator[int]:
        """Tags that no message has. Messages whose tag stands for any in GOAL get the first of them."""
        ranks = self.schedule.ranks
        used = {tag for rank in ranks for tag in rank.tag}
        largest = max((tag for tag in used if tag < 2**31), default=0)
        free = (tag for tag in itertools.count(1 + largest) if tag not in used)
        if ANY in used:
            instead = next(free)
            for rank in ranks:
                rank.tag = [instead if tag == ANY else tag for tag in rank.tag]
        return free

    def _collectives(self) -> None:
        calls = self.traces.collectives.calls.sort_by(
            [("instance", "ascending"), ("rank", "ascending")]
        )
        if not len(calls):
            return
        instance = calls.column("instance").to_numpy()
        cuts = np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]])
        for a, b in zip(cuts, np.r_[cuts[1:], len(instance)], strict=True):
            self._collective(calls.slice(int(a), int(b - a)), next(self.free_tags))

    def _collective(self, calls: pa.Table, tag: int) -> None:
        ranks, rows = calls.column("rank").to_pylist(), calls.column("row").to_pylist()
        kind, size = (
            calls.column("comm_type")[0].as_py(),
            max(calls.column("comm_size").to_pylist()),
        )
        group = str(calls.column("group")[0].as_py() or "")
        members = [int(r) for r in self.traces.groups.get(group, ())] or ranks
        if sorted(members) != sorted(ranks) or kind not in COLLECTIVES:
            self.schedule.left_out["collectives with members that are not here"] += 1
            return
        steps, data = self._steps(COLLECTIVES[kind], tuple(members), max(int(size), 0))
        exits = {
            rank: self.schedule.ranks[rank].add(CALC, 0, name="end of collective") for rank in ranks
        }
        row_of = dict(zip(ranks, rows, strict=True))
        entries = {rank: int(self.begin[rank][row_of[rank]]) for rank in ranks}
        frontier = self._messages(steps, data, members, entries, tag)
        for rank in ranks:
            out = self.schedule.ranks[rank]
            out.ends += [(op, exits[rank]) for op in {entries[rank], *frontier[rank]}]
            self.end[rank][row_of[rank]] = exits[rank]

    def _steps(
        self, collective: str, members: tuple[int, ...], size: int
    ) -> tuple[CollectiveSteps, int]:
        """The steps of a collective, and all of its data in bytes."""
        key = (collective, len(members), members, size)
        if key not in self.steps:
            self.steps[key] = chosen_steps(self.machine, self.algorithms, collective, members, size)
        name = self.steps[key].name or "direct"
        self.schedule.algorithms[f"{collective} of {len(members)}: {name}"] += 1
        return self.steps[key], int(data_bytes(collective, size, len(members)))

    def _messages(
        self,
        steps: CollectiveSteps,
        data: int,
        members: list[int],
        entries: dict[int, int],
        tag: int,
    ) -> dict[int, set[int]]:
        """Adds the messages of a collective; gives, by rank, the operations after which it has ended."""
        begin = {rank: {entries[rank]} for rank in members}
        done: list[dict[int, set[int]]] = []
        for number, step in enumerate(steps.steps):
            after = steps.after(number)
            last = {
                r: set().union(*(done[a][r] for a in after)) if after else begin[r] for r in members
            }
            for k in range(step.repeat):
                last = self._round(step, k, steps.pieces, data, members, last, tag)
            done.append(last)
        return {r: set().union(begin[r], *(d[r] for d in done)) for r in members}

    def _round(
        self,
        step: TransferStep,
        k: int,
        pieces: int,
        data: int,
        members: list[int],
        last: dict[int, set[int]],
        tag: int,
    ) -> dict[int, set[int]]:
        """Adds one repetition of a step; a member that takes no part in it is where it was."""
        mine: dict[int, set[int]] = {}
        sizes = _sizes(step, k, pieces, data)
        for src, dst, size in zip(
            step.src.tolist(), step.dst.tolist(), sizes.tolist(), strict=True
        ):
            if SWITCH in (src, dst):
                raise ConfigError("an algorithm inside a switch has no messages; choose another")
            a, b = members[src], members[dst]
            for rank, way, peer in ((a, SEND, b), (b, RECV, a)):
                out = self.schedule.ranks[rank]
                op = out.add(way, size, peer, tag, self.messages_on[rank])
                out.ends += [(before, op) for before in sorted(last[rank])]
                mine.setdefault(rank, set()).add(op)
        return {**last, **mine}

    def _edges(self, rank: int, trace: Trace) -> None:
        out, edges = self.schedule.ranks[rank], trace.edges
        begin, end = self.begin[rank], self.end[rank].copy()
        waits = edges.form == EdgeForm.FINISH_FINISH
        for row in np.unique(edges.dst[waits]).tolist():
            both = out.add(CALC, 0, name="end after another")
            out.ends.append((int(end[row]), both))
            end[row] = both
        self.schedule.left_out["lags of edges"] += int((edges.lag > 0).sum())
        rows = zip(edges.src.tolist(), edges.dst.tolist(), edges.form.tolist(), strict=True)
        for src, dst, form in rows:
            if form == EdgeForm.START_START:
                out.starts.append((int(begin[src]), int(begin[dst])))
            elif form == EdgeForm.FINISH_FINISH:
                out.ends.append((int(end[src]), int(end[dst])))
            else:
                out.ends.append((int(end[src]), int(begin[dst])))


def _sizes(step: TransferStep, k: int, pieces: int, data: int) -> I64:
    """Bytes of each transfer; pieces are as equal as whole bytes allow."""
    edges = np.arange(pieces + 1, dtype=np.int64) * data // max(pieces, 1)
    first = (step.first + k * step.shift) % step.modulus
    base = np.broadcast_to(np.asarray(step.base, np.int64), first.shape)
    out = np.zeros(len(first), np.int64)
    for i, (at, count, low) in enumerate(
        zip(first.tolist(), step.count.tolist(), base.tolist(), strict=True)
    ):
        numbers = low + (at + np.arange(count)) % step.modulus
        out[i] = int((edges[numbers + 1] - edges[numbers]).sum())
    return out


def _optional(trace: Trace, name: str) -> I64:
    """A column that traces from elsewhere lack, as numbers; 0 where it is missing."""
    has_it = name in trace.nodes.column_names
    return trace.column(name, 0).astype(np.int64) if has_it else np.zeros(len(trace), np.int64)


def _cpus(trace: Trace) -> I64:
    """A cpu for each stream or thread; more than a byte counts share the last ones."""
    if "stream" in trace.nodes.column_names and not trace.is_timed:
        return np.minimum(trace.column("stream", 0).astype(np.int64), _LAST_CPU)
    _, number = np.unique(lane_of(trace), return_inverse=True)
    return np.minimum(number, _LAST_CPU)
