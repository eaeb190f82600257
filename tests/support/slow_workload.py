"""What the slow simulator runs: traces rank by rank, collectives and messages as steps over routes."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np

from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import (
    COLLECTIVES,
    SWITCH,
    Algorithms,
    data_bytes,
    grid_of,
    possible,
    shapes,
)
from chakrakit.simulator.engine import TransferPlans
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import TraceSet
from support.slow_parts import Job, Node

PS = 1e12
DEFAULTS = {
    "is_cpu_op": False,
    "stream": 0,
    "tid": 0,
    "comm_priority": 0,
    "device_share": -1.0,
    "waves": 1,
}


def columns_of(trace) -> dict[str, list]:
    """The columns that the engine reads, as lists."""
    found = {name: trace.column(name, default).tolist() for name, default in DEFAULTS.items()}
    found |= {f"has_{name}": trace.has(name).tolist() for name in ("stream", "tid")}
    found |= {"type": trace.types.tolist(), "start": trace.start_ns.tolist()}
    return found | {"id": trace.ids.tolist()}


class SlowWorkload:
    """The nodes of all ranks and the jobs they communicate by, before anything runs."""

    def __init__(
        self,
        traces: TraceSet,
        machine: Machine,
        algorithms: Algorithms | None = None,
        chosen: dict | None = None,
        durations=None,
    ) -> None:
        self.machine = machine
        self.algorithms = algorithms or Algorithms()
        self.chosen = chosen or {}
        self.latency = machine.links.latency.tolist()
        self.routes = self._all_routes()
        self.jobs: list[Job] = []
        self.shapes: dict = {}  # members → how they lie on the machine
        self.by_rank = {rank: self._rank(rank, trace, durations) for rank, trace in traces}
        self.nodes = [node for nodes in self.by_rank.values() for node in nodes]
        self._communication(traces)

    def _all_routes(self) -> dict[tuple[int, int], list[int]]:
        count = self.machine.size
        src, dst = (a.ravel() for a in np.indices((count, count)))
        apart = src != dst
        routes = self.machine.routes(src[apart], dst[apart])
        pairs = zip(src[apart].tolist(), dst[apart].tolist(), strict=True)
        return {pair: routes.route(i).tolist() for i, pair in enumerate(pairs)}

    def _rank(self, rank, trace, durations) -> list[Node]:
        columns = columns_of(trace)
        nanos = trace.duration_ns * 1000 if durations is None else durations[rank]
        nodes = [self._node(rank, row, columns, nanos[row]) for row in range(len(trace))]
        e = trace.edges
        for src, dst, form, lag in zip(e.src, e.dst, e.form, e.lag, strict=True):
            event = "start" if form == 1 else "end"
            waits = nodes[dst].end_waits if form == 2 else nodes[dst].start_waits
            waits.append((nodes[src], event, int(lag) * 1000))
        lanes = defaultdict(list)
        for node in nodes:
            if node.lane and not node.pool:
                lanes[node.lane].append(node)
        for lane in lanes.values():
            lane.sort(key=lambda n: n.order)
            for a, b in pairwise(lane):
                b.previous = a
        return nodes

    def _node(self, rank, row, columns, nanos) -> Node:
        kind = NodeType(columns["type"][row])
        host = columns["is_cpu_op"][row]
        comm = kind.name.startswith("COMM")
        stream = columns["has_stream"][row] and not host
        tid = columns["has_tid"][row] and host
        lane = None
        if kind == NodeType.COMP_NODE:
            lane = ("host" if host else "device", rank)
        if stream:
            lane = ("stream", rank, columns["stream"][row])
        if tid:
            lane = ("thread", rank, columns["tid"][row])
        work = "comm" if comm else "plain" if host or kind != NodeType.COMP_NODE else "compute"
        share = columns["device_share"][row]
        return Node(
            rank,
            row,
            work,
            int(nanos),
            lane,
            lane is not None and not (stream or tid),
            (columns["start"][row], columns["id"][row]),
            columns["comm_priority"][row],
            round(1e6 * (share if share >= 0 else 0.0 if comm else 1.0)),
            columns["waves"][row],
        )

    def _communication(self, traces) -> None:
        found = traces.collectives
        calls = defaultdict(list)
        for call in found.calls.to_pylist():
            calls[call["instance"]].append(call)
        for group in calls.values():
            self._collective(traces, group)
        messages = defaultdict(list)
        for m in found.messages.to_pylist():
            messages[m["src"], m["dst"], m["tag"], m["nth"]].append(m)
        for (src, dst, _, _), ends in messages.items():
            size = next(m["comm_size"] for m in ends if m["is_send"])
            self._job(
                [([(src, dst, float(size), 0)], 1, ())],
                [self.by_rank[m["rank"]][m["row"]] for m in ends],
            )

    def _collective(self, traces, calls) -> None:
        members = tuple(traces.groups.ranks_of(calls[0]["group"], range(traces.world_size)))
        nodes = [self.by_rank[c["rank"]][c["row"]] for c in calls]
        if len(members) == 1:
            for node in nodes:
                node.kind = "plain"
            return
        assert len(nodes) == len(members)
        devices = np.array(members)
        size = max(c["comm_size"] for c in calls)
        collective = COLLECTIVES[calls[0]["comm_type"]]
        shape = self._shape(members)
        total = data_bytes(collective, size, len(members))
        each = total / len(members) if collective == "all-to-all" else total
        known = self.chosen.get((collective, calls[0]["group"], size))
        grid = grid_of(self.machine, devices)

        def moves_of(name):
            return self.algorithms.moves(collective, name, each, shape, 0, grid)

        name = known or self.algorithms.asked(collective, shape)
        if not name:
            schedules = {n: moves_of(n) for n in possible(collective, shape)}
            name = TransferPlans(self.machine).fastest(schedules, devices[None, :], total)
        moves = moves_of(name)
        self._job(self._steps(moves, devices, total / moves.pieces), nodes)

    def _shape(self, members: tuple[int, ...]):
        if members not in self.shapes:
            self.shapes[members] = shapes(self.machine, np.array(members)[None, :])[0]
        return self.shapes[members]

    def _steps(self, moves, devices, piece) -> list:
        steps: list = []
        number = []
        for i, s in enumerate(moves.steps):
            transfers = [self._transfer(s, k, devices, piece) for k in range(len(s.src))]
            if s.joined:
                steps[-1][0].extend(transfers)
            else:
                steps.append((transfers, s.repeat, tuple(number[b] for b in moves.after(i))))
            number.append(len(steps) - 1)
        return steps

    def _transfer(self, s, k, devices, piece):
        src, dst, size = int(s.src[k]), int(s.dst[k]), float(s.count[k] * piece)
        if SWITCH not in (src, dst):
            return int(devices[src]), int(devices[dst]), size, 0
        up, down = self.machine.reduction_links(devices)
        if dst == SWITCH:
            return "link", int(up[src]), size, 0
        return "link", int(down[dst]), size, round(float(self.machine.links.latency[up].max()) * PS)

    def _job(self, steps, nodes) -> None:
        software = self.machine.software
        laid = []
        for transfers, repeat, after in steps:
            routed = []
            for a, b, size, wait in transfers:
                links = [b] if a == "link" else self.routes[a, b]
                late = sum(self.latency[link] for link in links)
                delay = round(float(late) * PS) + round(software.step_overhead * PS) + wait
                routed.append((links, size, delay))
            laid.append((routed, repeat, after))
        job = Job(laid, nodes, len(nodes), round(software.collective_overhead * PS))
        job.rounds = [0] * len(laid)
        for node in nodes:
            node.job = job
        self.jobs.append(job)
