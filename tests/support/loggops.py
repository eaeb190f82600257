"""LogGOPSim's rules for eager messages: what GOAL schedules take on a network of L, o, g, G and O.

A calculation occupies its cpu. A send occupies its cpu for o + (s-1)·O and its nic for g + (s-1)·G; the
first byte arrives L + o later. The message then needs the receiver's cpu and nic, from when they are
free, for o + (s-1)·O and g + (s-1)·G; the receive has ended when its cpu is done and all bytes are in.
`requires` waits for ends, `irequires` for starts; a receive starts as soon as it may, and meets messages
by rank, tag and order.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from chakrakit.sources.foreign import CALC, SEND, GoalRank


@dataclass(frozen=True)
class Network:
    latency: int = 0
    overhead: int = 0
    gap: int = 0
    per_byte: int = 0
    cpu_per_byte: int = 0


def run(ranks: Sequence[GoalRank], network: Network) -> list[list[int]]:
    """When each operation of each rank ends; an AssertionError if some never can."""
    return _Simulation(ranks, network).run()


class _Simulation:
    def __init__(self, ranks: Sequence[GoalRank], network: Network) -> None:
        self.ranks, self.net = ranks, network
        self.left = [[0] * len(r) for r in ranks]
        self.after = [([[] for _ in r.kind], [[] for _ in r.kind]) for r in ranks]
        for left, after, rank in zip(self.left, self.after, ranks, strict=True):
            for sort, pairs in enumerate((rank.ends, rank.starts)):
                for before, then in pairs:
                    after[sort][before].append(then)
                    left[then] += 1
        self.ready = [[0] * len(r) for r in ranks]
        self.ended = [[-1] * len(r) for r in ranks]
        self.cpu: dict[tuple[int, int], int] = defaultdict(int)
        self.out: dict[tuple[int, int], int] = defaultdict(int)
        self.into: dict[tuple[int, int], int] = defaultdict(int)
        self.waiting: dict[tuple[int, int, int], deque[tuple[int, int]]] = defaultdict(deque)
        self.arrived: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        self.queue: list[tuple[int, int, int, int, int]] = []
        self.count = 0

    def run(self) -> list[list[int]]:
        for r, rank in enumerate(self.ranks):
            for op in range(len(rank)):
                if not self.left[r][op]:
                    self._push(0, 0, r, op)
        while self.queue:
            time, _, what, r, op = heapq.heappop(self.queue)
            (self._begin if what == 0 else self._message)(time, r, op)
        assert all(e >= 0 for ends in self.ended for e in ends), "some operations never end"
        return self.ended

    def _push(self, time: int, what: int, r: int, op: int) -> None:
        self.count += 1
        heapq.heappush(self.queue, (time, self.count, what, r, op))

    def _begin(self, time: int, r: int, op: int) -> None:
        rank = self.ranks[r]
        kind, size, cpu, nic = rank.kind[op], rank.size[op], (r, rank.cpu[op]), (r, rank.nic[op])
        if kind == CALC:
            if self.cpu[cpu] > time:
                return self._push(self.cpu[cpu], 0, r, op)
            self.cpu[cpu] = time + size
            self._started(time, r, op)
            return self._end(time + size, r, op)
        if kind == SEND:
            free = max(self.cpu[cpu], self.out[nic])
            if free > time:
                return self._push(free, 0, r, op)
            busy = self.net.overhead + max(size - 1, 0) * self.net.cpu_per_byte
            self.cpu[cpu] = time + busy
            self.out[nic] = time + self.net.gap + max(size - 1, 0) * self.net.per_byte
            self._started(time, r, op)
            self._push(time + self.net.overhead + self.net.latency, 1, r, op)
            return self._end(time + busy, r, op)
        self._started(time, r, op)
        key = (r, rank.peer[op], rank.tag[op])
        if self.arrived[key]:
            return self._end(max(time, self.arrived[key].popleft()), r, op)
        return self.waiting[key].append((op, time))

    def _message(self, time: int, source: int, op: int) -> None:
        """The first byte of a message is there."""
        rank = self.ranks[source]
        target, size = rank.peer[op], rank.size[op]
        cpu, nic = (target, rank.cpu[op]), (target, rank.nic[op])
        free = max(self.cpu[cpu], self.into[nic])
        if free > time:
            return self._push(free, 1, source, op)
        busy = self.net.overhead + max(size - 1, 0) * self.net.cpu_per_byte
        self.cpu[cpu] = time + busy
        self.into[nic] = time + self.net.gap + max(size - 1, 0) * self.net.per_byte
        done = time + max(busy, self.net.overhead + max(size - 1, 0) * self.net.per_byte)
        key = (target, source, rank.tag[op])
        if self.waiting[key]:
            receive, _ = self.waiting[key].popleft()
            return self._end(done, target, receive)
        return self.arrived[key].append(done)

    def _started(self, time: int, r: int, op: int) -> None:
        self._free(time, r, self.after[r][1][op])

    def _end(self, time: int, r: int, op: int) -> None:
        self.ended[r][op] = time
        self._free(time, r, self.after[r][0][op])

    def _free(self, time: int, r: int, ops: list[int]) -> None:
        for op in ops:
            self.left[r][op] -= 1
            self.ready[r][op] = max(self.ready[r][op], time)
            if not self.left[r][op]:
                self._push(self.ready[r][op], 0, r, op)
