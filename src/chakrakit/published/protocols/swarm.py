"""Peers that give each other chunks over a sparse overlay, until each has enough that are not its own.

Every peer has an access link of its own speed each way. Whenever one of its uploads is free it picks a
neighbour and a chunk that this one lacks. How soon all could have enough at best is a flow problem.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published.protocols.max_flow import FlowNetwork
from chakrakit.simulator import live

GIGABIT = 1e9 / 8


@dataclass(frozen=True, eq=False)
class Peers:
    """Bytes per second each way, neighbours, chunks of each peer, and how many of others' each is to get."""

    up: F64
    down: F64
    neighbours: list[list[int]]
    own: int
    need: int
    chunk: float

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.up)


@cache
def draw_peers(count: int, slowest: float, own: int, need: int, chunk: float, seed: int) -> Peers:
    """Access links from `slowest` to 10 Gb/s, and ten neighbours drawn by each peer."""
    rng = random.Random(f"{count} peers {seed}")
    up, down = (np.array([rng.uniform(slowest, 10) for _ in range(count)]) for _ in range(2))
    near: list[set[int]] = [set() for _ in range(count)]
    for i in range(count):
        for j in rng.sample(range(count), 11):
            if j != i:
                near[i].add(j)
                near[j].add(i)
    return Peers(up * GIGABIT, down * GIGABIT, [sorted(s) for s in near], own, need, chunk)


def star(peers: Peers) -> Machine:
    """The access links, with a core that is never the limit."""
    site = {"topology": "switch", "size": peers.count, "bandwidth": "10 Gb/s", "latency": "5 ms"}
    plain = machine({"network": [site]})
    links = replace(plain.links, bandwidth=np.concatenate([peers.up, peers.down]))
    return replace(plain, changed_links=links)


@cache
def least_seconds(peers: Peers) -> float:
    """How soon all peers could have what they need, if every byte could flow at once: the max-flow bound."""
    chunks = peers.count * peers.need
    slowest, uploads = float(peers.down.min()), float(peers.up.sum())
    low = peers.chunk * max(peers.need / slowest, chunks / uploads)
    if _fits(peers, low):
        return low
    high = 2 * low
    while not _fits(peers, high):
        low, high = high, 2 * high
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _fits(peers, middle) else (middle, high)
    return high


def _fits(peers: Peers, seconds: float) -> bool:
    """Whether uploads of so many seconds cover what everybody needs."""
    n = peers.count
    edges = [(2 * n, i, peers.up[i] * seconds / peers.chunk) for i in range(n)]
    edges += [(i, n + j, float(peers.need)) for i in range(n) for j in peers.neighbours[i]]
    edges += [(n + j, 2 * n + 1, float(peers.need)) for j in range(n)]
    return FlowNetwork(2 * n + 2, edges).flow(2 * n, 2 * n + 1) > n * peers.need * (1 - 1e-6)


@dataclass
class Swarm:
    """What everybody has, what is on its way, and how a peer chooses; a tracker tells it to all."""

    peers: Peers
    how: str
    rng: random.Random
    ended: float = 0.0
    own_sent: int = 0
    busy: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, own = self.peers.count, self.peers.own
        self.has = np.repeat(np.eye(n, dtype=bool), own, axis=1)
        self.coming = self.has.copy()
        self.copies = self.has.sum(axis=0)
        self.lacks = [self.peers.need] * n
        self.busy = [0] * n

    def choose(self, i: int) -> tuple[int, int] | None:
        """A neighbour that needs more, and a chunk of `i` that it lacks; None where there is none."""
        wanting = [j for j in self.peers.neighbours[i] if self.lacks[j] > 0]
        self.rng.shuffle(wanting)
        if self.how == "fastest":
            wanting.sort(key=lambda j: (self.busy[j] + 1) / self.peers.down[j])
        for j in wanting:
            chunks = np.flatnonzero(self.has[i] & ~self.coming[j])
            if len(chunks):
                return j, self._chunk(chunks)
        return None

    def _chunk(self, chunks: np.ndarray) -> int:
        if self.how == "rarest":
            return int(chunks[np.argmin(self.copies[chunks])])
        return int(chunks[self.rng.randrange(len(chunks))])

    def upload(self, me: live.Actor, i: int) -> live.Program:
        """One upload of a peer: a chunk after another, until nobody near needs any."""
        while any(self.lacks[j] > 0 for j in self.peers.neighbours[i]):
            choice = self.choose(i)
            if choice is None:
                yield live.receive()  # what others send may be what neighbours lack
                continue
            j, chunk = choice
            self.lacks[j] -= 1
            self.busy[j] += 1
            self.coming[j, chunk] = True
            self.own_sent += chunk // self.peers.own == i
            yield live.send(j, self.peers.chunk, wait=True)
            self.busy[j] -= 1
            self.has[j, chunk] = True
            self.copies[chunk] += 1
            self.ended = me.now / live.S

    def run(self, uploads: int, seed: int) -> None:
        """Lets everybody give until all have enough."""
        world = live.World(star(self.peers), seed=seed, record=False)
        for i in range(self.peers.count):
            world.actor(self._peer, uploads, i, rank=i, name=f"peer {i}", daemon=True)
        world.run()

    def _peer(self, me: live.Actor, uploads: int, i: int) -> live.Program:
        yield live.all_of(*(self.upload(me, i) for _ in range(uploads)))
