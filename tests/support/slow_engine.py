"""A slow simulator in plain Python, to compare the fast one with.

It knows no folding, no skipped rounds and no matching of its own: ranks are simulated one by one from
`TraceSet.trace`, every round of every step is run, and the fair shares are found by the textbook. It takes
the steps of collectives (`CollectiveSteps`) and the machine's routes as given; those have their own tests.
"""

from __future__ import annotations

import math
from collections import defaultdict

from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import Algorithms
from chakrakit.trace.sets import TraceSet
from support.slow_parts import Flow, Node, components, fair, time_at_rate
from support.slow_workload import PS, SlowWorkload


class Oracle(SlowWorkload):
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
        changes: list[tuple[int, int, float]] = (),
    ) -> None:
        """`changes` are moments at which a link gets a factor of its bandwidth."""
        super().__init__(traces, machine, algorithms, chosen, durations)
        self.changes = sorted(changes)
        self.bandwidth = {i: float(b) / PS for i, b in enumerate(machine.links.bandwidth)}
        self.flow = network == "flow"
        self.slowdown, self.share = slowdown, share
        self.capacity = {i: float(b) / PS for i, b in enumerate(machine.links.bandwidth)}
        self.now = 0
        self.crowded = any(n.kind == "comm" and n.share for n in self.nodes)
        # Rank → when to look again, and whether room is given up then.
        self.rounds: dict[int, tuple[int, bool]] = {}
        self.states: dict[int, tuple] = {}

    def run(self) -> Oracle:
        self._change_links()
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
            self._change_links()

    def _change_links(self) -> None:
        for at, link, factor in self.changes:
            if at <= self.now:
                self.capacity[link] = self.bandwidth[link] * factor

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
                f.ends = self.now + time_at_rate(f.remaining, rate) if rate else None

    # --- devices ------------------------------------------------------------------------------

    def _busy(self, rank) -> list[Node]:
        mine = [n for n in self.by_rank[rank] if n.kind == "compute" and n.duration]
        return [n for n in mine if n.start >= 0 and self._working(n)]

    def _asking(self, rank) -> list[Node]:
        mine = [n for n in self.by_rank[rank] if n.kind == "comm" and n.share > 0]
        waiting = [n for n in mine if n.ready >= 0 and n.start < 0]
        return sorted(waiting, key=lambda n: (-n.priority, n.ready, n.row))

    def _room(self, rank) -> int:
        talking = [n for n in self.by_rank[rank] if n.kind == "comm"]
        return 1_000_000 - sum(n.share for n in talking if n.start >= 0 and n.end < 0)

    def _admit(self) -> bool:
        admitted = False
        for rank in self.by_rank if self.crowded else ():
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
        underway = [j for j in self.jobs if 0 <= j.go <= self.now and j.ended < 0 and j.steps]
        moving = {n.rank for j in underway for n in j.nodes}
        for rank, nodes in self.by_rank.items():
            busy = self._busy(rank)
            talking = [n for n in nodes if n.kind == "comm" and n.start >= 0 and n.end < 0]
            rate, each = 1.0, self._room(rank)
            if rank in moving:
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
        if any(node.end < 0 for node in self.nodes):
            times += [at for at, _, _ in self.changes]
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
