"""A slow simulator in plain Python, to compare the fast one with.

It knows no folding, no skipped rounds and no matching of its own: ranks are simulated one by one from
`TraceSet.trace`, every round of every step is run, and the fair shares are found by the textbook. It takes
the steps of collectives (`CollectiveSteps`) and the machine's routes as given; those have their own tests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from chakrakit.machines.fabric.machine import Machine
from chakrakit.simulator.collectives.choice import COLLECTIVES, Algorithms, data_bytes
from chakrakit.simulator.collectives.collective_steps import SWITCH
from chakrakit.simulator.collectives.group_shape import grid_of, shapes
from chakrakit.trace.model.schema import NodeType
from chakrakit.trace.sets.traceset import TraceSet

TIE = 1 + 1e-9
PS = 1e12


@dataclass(eq=False)
class Node:
    rank: int
    row: int
    kind: str  # plain, compute, comm
    duration: int
    lane: tuple | None
    pool: bool
    order: tuple
    priority: int
    share: int  # of its device, in millionths
    waves: int
    start_waits: list = field(default_factory=list)  # (node, event, lag)
    end_waits: list = field(default_factory=list)
    start: int = -1
    end: int = -1
    done: int = -1  # when its own work is over
    ready: int = -1
    previous: Node | None = None
    job: Job | None = None
    remaining: float = 0.0
    rate: float = 0.0
    since: int = 0


@dataclass(eq=False)
class Flow:
    links: list
    remaining: float
    at: int  # when it enters the links
    rate: float = 0.0
    since: int = 0
    ends: int | None = None
    done: bool = False


@dataclass(eq=False)
class Job:
    steps: list  # (transfers, repeat, after)
    nodes: list
    needed: int
    overhead: int
    go: int = -1
    ended: int = -1
    rounds: list = field(default_factory=list)
    flows: dict = field(default_factory=dict)
    done: set = field(default_factory=set)


def fair(flows: list[Flow], capacity: dict) -> dict:
    """Progressive filling over one component; what is used of a link is summed exactly."""
    used = {link: 0 for f in flows for link in f.links}
    open_flows = {link: [f for f in flows if link in f.links] for link in used}
    rates: dict = {}
    while len(rates) < len(flows):
        left = {k: max(0.0, capacity[k] - math.ldexp(float(used[k]), -80)) for k in used}
        share = {k: left[k] / len(v) for k, v in open_flows.items() if v}
        least = min(share.values())
        chosen = {f for k, s in share.items() if s <= least * TIE for f in open_flows[k]}
        for f in chosen:
            rates[f] = least
        for link in used:
            gone = sum(f in chosen for f in open_flows[link])
            used[link] += int(math.ldexp(least, 80)) * gone
            open_flows[link] = [f for f in open_flows[link] if f not in chosen]
    return rates


def components(flows: list[Flow]) -> list[list[Flow]]:
    found: list[tuple[set, list]] = []
    for f in flows:
        touching = [c for c in found if c[0] & set(f.links)]
        merged = (
            set(f.links).union(*(c[0] for c in touching)),
            [g for c in touching for g in c[1]] + [f],
        )
        found = [c for c in found if c not in touching] + [merged]
    return [c[1] for c in found]


class Oracle:
    def __init__(
        self,
        traces: TraceSet,
        machine: Machine,
        network: str,
        algorithms: Algorithms | None = None,
        chosen: dict | None = None,
        slowdown: float = 0.0,
        share: bool = False,
        durations=None,
    ) -> None:
        self.machine, self.flow = machine, network == "flow"
        self.algorithms = algorithms or Algorithms()
        self.chosen = chosen or {}
        self.slowdown, self.share = slowdown, share
        self.capacity = {i: float(b) / PS for i, b in enumerate(machine.links.bandwidth)}
        self.latency = machine.links.latency.tolist()
        self.routes = self._all_routes()
        self.nodes: list[Node] = []
        self.jobs: list[Job] = []
        by_rank = {rank: self._rank(rank, trace, durations) for rank, trace in traces}
        self._communication(traces, by_rank)
        self.now = 0
        self.crowded = any(n.kind == "comm" and n.share for n in self.nodes)
        self.rounds: dict[
            int, tuple[int, bool]
        ] = {}  # rank → when to look again, and if room is given up
        self.states: dict[int, tuple] = {}

    # --- set-up -------------------------------------------------------------------------------

    def _all_routes(self) -> dict[tuple[int, int], list[int]]:
        count = self.machine.size
        src, dst = (a.ravel() for a in np.indices((count, count)))
        apart = src != dst
        routes = self.machine.routes(src[apart], dst[apart])
        pairs = zip(src[apart].tolist(), dst[apart].tolist(), strict=True)
        return {pair: routes.route(i).tolist() for i, pair in enumerate(pairs)}

    def _rank(self, rank, trace, durations) -> list[Node]:
        nodes = [self._node(rank, trace, row, durations) for row in range(len(trace))]
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
        self.nodes += nodes
        return nodes

    def _node(self, rank, trace, row, durations) -> Node:
        kind = NodeType(int(trace.types[row]))
        host = bool(trace.column("is_cpu_op", False)[row])
        comm = kind.name.startswith("COMM")
        stream = trace.has("stream")[row] and not host
        tid = trace.has("tid")[row] and host
        lane = None
        if kind == NodeType.COMP_NODE:
            lane = ("host" if host else "device", rank)
        if stream:
            lane = ("stream", rank, int(trace.column("stream", 0)[row]))
        if tid:
            lane = ("thread", rank, int(trace.column("tid", 0)[row]))
        work = "comm" if comm else "plain" if host or kind != NodeType.COMP_NODE else "compute"
        nanos = (
            int(trace.duration_ns[row]) * 1000 if durations is None else int(durations[rank][row])
        )
        return Node(
            rank,
            row,
            work,
            nanos,
            lane,
            lane is not None and not (stream or tid),
            (int(trace.start_ns[row]), int(trace.ids[row])),
            int(trace.column("comm_priority", 0)[row]),
            round(1e6 * trace.column("device_share", 0.0 if comm else 1.0)[row]),
            int(trace.column("waves", 1)[row]),
        )

    def _communication(self, traces, by_rank) -> None:
        found = traces.collectives
        calls = defaultdict(list)
        for call in found.calls.to_pylist():
            calls[call["instance"]].append(call)
        for group in calls.values():
            self._collective(traces, group, by_rank)
        messages = defaultdict(list)
        for m in found.messages.to_pylist():
            messages[m["src"], m["dst"], m["tag"], m["nth"]].append(m)
        for (src, dst, _, _), ends in messages.items():
            size = next(m["comm_size"] for m in ends if m["is_send"])
            self._job(
                [([(src, dst, float(size), 0)], 1, ())],
                [by_rank[m["rank"]][m["row"]] for m in ends],
            )

    def _collective(self, traces, calls, by_rank) -> None:
        members = traces.groups.ranks_of(calls[0]["group"], range(traces.world_size))
        nodes = [by_rank[c["rank"]][c["row"]] for c in calls]
        if len(members) == 1:
            for node in nodes:
                node.kind = "plain"
            return
        assert len(nodes) == len(members)
        devices = np.array(members)
        size = max(c["comm_size"] for c in calls)
        collective = COLLECTIVES[calls[0]["comm_type"]]
        shape = shapes(self.machine, devices[None, :])[0]
        total = data_bytes(collective, size, len(members))
        each = total / len(members) if collective == "all-to-all" else total
        known = self.chosen.get((collective, calls[0]["group"], size))
        name = known or self.algorithms.choose(collective, each, shape)
        grid = grid_of(self.machine, devices) if name == "hierarchical" else None
        moves = self.algorithms.moves(collective, name, each, shape, 0, grid)
        self._job(self._steps(moves, devices, total / moves.pieces), nodes)

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

    # --- running ------------------------------------------------------------------------------

    def run(self) -> Oracle:
        while True:
            while self._events() or self._dispatch() or self._admit():
                pass
            self._share_devices()
            if self.flow:
                self._share_links()
            later = [t for t in self._times() if t > self.now]
            if not later:
                return self
            self.now = min(later)

    def _events(self) -> bool:
        return any([self._starts(), self._ends(), self._network()])

    def _known(self, waits) -> int | None:
        """The latest of the waits' times, or None while one has not happened."""
        times = []
        for node, event, lag in waits:
            at = getattr(node, event)
            if at < 0:
                return None
            times.append(at + lag)
        return max(times, default=0)

    def _start_time(self, node) -> int | None:
        waits = list(node.start_waits)
        if node.previous is not None:
            waits.append((node.previous, "end", 0))
        return self._known(waits)

    def _starts(self) -> bool:
        any_started = False
        for node in self.nodes:
            if node.start >= 0 or node.ready >= 0:
                continue
            at = self._start_time(node)
            if at is None or at > self.now:
                continue
            any_started = True
            if node.pool or (node.kind == "comm" and node.share > 0):
                node.ready = self.now
            else:
                self._begin(node)
        return any_started

    def _begin(self, node) -> None:
        node.start = self.now
        if node.kind == "plain" or (node.kind == "compute" and node.duration == 0):
            node.done = self.now + node.duration
        elif node.kind == "compute":
            node.remaining, node.rate, node.since = float(node.duration), 0.0, self.now

    def _end_time(self, node) -> int | None:
        waits = self._known(node.end_waits)
        return None if waits is None or node.done < 0 else max(waits, node.done)

    def _ends(self) -> bool:
        any_ended = False
        for node in self.nodes:
            if node.start < 0 or node.end >= 0:
                continue
            at = self._end_time(node)
            if at is not None and at <= self.now:
                node.end = self.now
                any_ended = True
        return any_ended

    def _dispatch(self) -> bool:
        lanes = defaultdict(list)
        for node in self.nodes:
            if node.pool and node.ready >= 0 and node.end < 0:
                lanes[node.lane].append(node)
        picked = False
        for nodes in lanes.values():
            if any(n.start >= 0 for n in nodes):
                continue
            self._begin(min(nodes, key=lambda n: (-n.priority, n.ready, n.row)))
            picked = True
        return picked

    def _network(self) -> bool:
        changed = False
        for job in self.jobs:
            if job.go < 0 and sum(n.start >= 0 for n in job.nodes) == job.needed:
                job.go = max(n.start for n in job.nodes) + job.overhead
                changed = True
            if 0 <= job.go <= self.now and job.ended < 0:
                changed |= self._advance(job)
        return changed

    def _advance(self, job) -> bool:
        changed = False
        for number, (transfers, repeat, after) in enumerate(job.steps):
            if number in job.done or not set(after) <= job.done:
                continue
            if number not in job.flows:
                job.flows[number] = [self._flow(*t) for t in transfers]
                changed = True
            for f in job.flows[number]:
                finished = f.at <= self.now and (
                    f.remaining == 0 or (f.ends or math.inf) <= self.now
                )
                if not f.done and finished:
                    f.done = changed = True
            if all(f.done for f in job.flows[number]):
                job.rounds[number] += 1
                del job.flows[number]
                if job.rounds[number] == repeat:
                    job.done.add(number)
                changed = True
        if len(job.done) == len(job.steps):
            job.ended = self.now
            for node in job.nodes:
                node.done = self.now
            changed = True
        return changed

    def _flow(self, links, size, delay) -> Flow:
        flow = Flow(links, size, self.now + delay)
        if not self.flow and size:
            rate = min(self.capacity[link] for link in links)
            flow.ends = flow.at + math.ceil(size / rate)
        return flow

    def _active(self) -> list[Flow]:
        flows = [f for j in self.jobs for fs in j.flows.values() for f in fs]
        return [f for f in flows if not f.done and f.at <= self.now and f.remaining > 0]

    def _share_links(self) -> None:
        for part in components(self._active()):
            for f, rate in fair(part, self.capacity).items():
                if f.rate == rate:
                    continue
                f.remaining = max(0.0, f.remaining - f.rate * float(self.now - f.since))
                f.rate, f.since = rate, self.now
                f.ends = self.now + math.ceil(f.remaining / rate)

    # --- devices ------------------------------------------------------------------------------

    def _busy(self, rank) -> list[Node]:
        mine = [n for n in self.nodes if n.rank == rank and n.kind == "compute" and n.duration]
        return [n for n in mine if n.start >= 0 and self._working(n)]

    def _asking(self, rank) -> list[Node]:
        mine = [n for n in self.nodes if n.rank == rank and n.kind == "comm" and n.share > 0]
        waiting = [n for n in mine if n.ready >= 0 and n.start < 0]
        return sorted(waiting, key=lambda n: (-n.priority, n.ready, n.row))

    def _room(self, rank) -> int:
        talking = [n for n in self.nodes if n.rank == rank and n.kind == "comm"]
        return 1_000_000 - sum(n.share for n in talking if n.start >= 0 and n.end < 0)

    def _admit(self) -> bool:
        admitted = False
        for rank in {n.rank for n in self.nodes if self.crowded}:
            while (asking := self._asking(rank)) and self._may_start(asking[0]):
                self._begin(asking[0])
                admitted = True
        return admitted

    def _may_start(self, node) -> bool:
        free, busy = self._room(node.rank), self._busy(node.rank)
        if node.share > free:
            return False
        earlier = [b for b in busy if (b.start, b.row) < (node.ready, node.row)]
        if any(b.priority >= node.priority and self._rounds_left(b) > 1 for b in earlier):
            return False
        fits = node.share <= free - sum(b.share for b in busy)
        return not earlier or fits or self.rounds.get(node.rank) == (self.now, True)

    def _left(self, n) -> float:
        return n.remaining - n.rate * float(self.now - n.since)

    def _rounds_left(self, n) -> int:
        return math.ceil(self._left(n) / (n.duration / n.waves) - 1e-9)

    def _share_devices(self) -> None:
        for rank in {n.rank for n in self.nodes}:
            busy = self._busy(rank)
            talking = [
                n
                for n in self.nodes
                if n.rank == rank and n.kind == "comm" and n.start >= 0 and n.end < 0
            ]
            rate, each = 1.0, self._room(rank)
            if talking:
                rate /= 1 + self.slowdown
            if self.share and len(busy) > 1:
                each /= float(len(busy))
            for n in busy:
                self._set_rate(n, rate * (min(each, n.share) / 1e6))
            if self.crowded:
                self._next_round(rank, busy, talking)

    def _set_rate(self, n, rate) -> None:
        if n.rate == rate:
            return
        n.remaining = max(0.0, n.remaining - n.rate * float(self.now - n.since))
        n.rate, n.since = rate, self.now
        n.done = self.now + math.ceil(n.remaining / rate) if rate else -1

    def _next_round(self, rank, busy, talking) -> None:
        asking = self._asking(rank)
        state = tuple(tuple(n.row for n in part) for part in (busy, talking, asking))
        due = rank in self.rounds and self.rounds[rank][0] <= self.now
        if state == self.states.get(rank) and not due:
            return
        self.states[rank] = state
        self.rounds.pop(rank, None)
        if not asking or asking[0].share > self._room(rank):
            return
        first = asking[0]
        last = [
            self._when(n, 1)
            for n in busy
            if n.priority >= first.priority
            and (n.start, n.row) < (first.ready, first.row)
            and self._rounds_left(n) > 1
            and n.rate
        ]
        some = [
            self._when(n, self._rounds_left(n) - 1)
            for n in busy
            if n.priority < first.priority and n.rate
        ]
        if last or some:
            self.rounds[rank] = (min(last or some), not last)

    def _when(self, n, rounds) -> int:
        """When so many rounds will be left."""
        wait = math.ceil((self._left(n) - rounds * (n.duration / n.waves)) / n.rate)
        return self.now + max(1, wait)

    def _working(self, node) -> bool:
        return node.done < 0 or node.done > self.now

    def _times(self) -> list[int]:
        times = [f.at for f in self._pending()] + [f.ends for f in self._pending() if f.ends]
        times += [j.go for j in self.jobs if j.go >= 0 and j.ended < 0]
        times += [at for at, _ in self.rounds.values()]
        for node in self.nodes:
            if node.start < 0 and node.ready < 0:
                at = self._start_time(node)
            else:
                at = self._end_time(node) if node.end < 0 else None
            if at is not None:
                times.append(at)
            if node.kind == "compute" and node.start >= 0 and node.end < 0 and node.done > 0:
                times.append(node.done)
        return times

    def _pending(self) -> list[Flow]:
        return [f for j in self.jobs for fs in j.flows.values() for f in fs if not f.done]
