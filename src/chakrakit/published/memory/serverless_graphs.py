"""Connected components by serverless workers that share nothing but an object store.

Vertices lie on workers. In every superstep a worker lowers labels, writes what others must know, waits for
all, and reads what concerns it. Vertex by vertex a label moves one edge per superstep and has a key of its
own; subgraph by subgraph a worker goes on until nothing changes inside, and writes one object per neighbour.
The labels are really computed; each object is an operation of the store.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator import live

LABEL, EDGE_S = 16, 2e-7
"""Bytes of a vertex and its label, and seconds of an edge. Assumed: interpreted code in a small function."""
WAKE_S = 0.05
"""Until a function that is called again runs. Assumed: warm."""


@cache
def draw_graph(vertices: int, blocks: int, crossing: float, seed: int) -> tuple[I64, I64]:
    """Edges of a graph of blocks, each a path with shortcuts to popular vertices; some edges cross."""
    rng = random.Random(f"graph {vertices} {seed}")
    size, edges = vertices // blocks, []
    for block in range(blocks):
        first = block * size
        edges += [(first + i, first + i + 1) for i in range(size - 1)]
        for _ in range(2 * size):
            popular = int(size * rng.random() ** 3)
            edges.append((first + popular, first + rng.randrange(size)))
    for _ in range(round(crossing * vertices)):
        edges.append((rng.randrange(vertices), rng.randrange(vertices)))
    a, b = np.array(edges, np.int64).T
    return np.concatenate([a, b]), np.concatenate([b, a])


@dataclass(eq=False)
class Superstep:
    """What each worker does: edges it looks at, objects and bytes it writes and reads."""

    edges: I64
    writes: I64
    reads: I64
    size: float
    """Bytes of an object, on average."""


@cache
def supersteps(
    vertices: int, blocks: int, crossing: float, workers: int, whole: bool, seed: int
) -> list[Superstep]:
    """The supersteps until no label changes; `whole` subgraphs, or vertex by vertex."""
    src, dst = draw_graph(vertices, blocks, crossing, seed)
    home = np.arange(vertices) * workers // vertices
    inside = home[src] == home[dst]
    labels, steps = np.arange(vertices), []
    while True:
        before, looked = labels.copy(), np.zeros(workers, np.int64)
        while True:
            last = labels.copy()
            use = inside if whole else slice(None)
            np.minimum.at(labels, dst[use], last[src[use]])
            looked += np.bincount(home[dst[use]], minlength=workers)
            if not whole or (labels == last).all():
                break
        if whole:
            last = labels.copy()
            np.minimum.at(labels, dst[~inside], last[src[~inside]])
        cross = ~inside & (before != labels)[src]
        steps.append(_objects(src[cross], dst[cross], home, looked, whole))
        if (before == labels).all():
            return steps


def _objects(src: I64, dst: I64, home: I64, looked: I64, whole: bool) -> Superstep:
    """Which objects cross these edges: one per pair of workers, or a key per vertex for all that need it."""
    workers = len(looked)
    pairs = np.unique(home[src] * workers + home[dst])
    keys = np.unique(src)
    needs = np.unique(src * workers + home[dst])
    if whole:
        writes = np.bincount(pairs // workers, minlength=workers)
        reads = np.bincount(pairs % workers, minlength=workers)
        size = LABEL * len(needs) / max(1, len(pairs))
        return Superstep(looked, writes, reads, size)
    writes = np.bincount(home[keys], minlength=workers)
    return Superstep(looked, writes, np.bincount(needs % workers, minlength=workers), LABEL)


@dataclass
class Functions:
    """Workers that go through supersteps together, through the store or by messages."""

    steps: list[Superstep]
    workers: int
    connections: int
    resident: bool
    busy: list[float] = field(default_factory=list)

    def worker(self, me: live.Actor, number: int) -> live.Program:
        """One worker."""
        for step in self.steps:
            began = me.now / live.S
            if not self.resident:
                yield live.sleep(WAKE_S * live.S)
            yield live.sleep(step.edges[number] * EDGE_S * live.S)
            yield from self._move(number, int(step.writes[number]), step.size, writes=True)
            self.busy.append(me.now / live.S - began)
            yield from self._barrier(me)
            began = me.now / live.S
            yield from self._move(number, int(step.reads[number]), step.size, writes=False)
            self.busy.append(me.now / live.S - began)

    def _move(self, number: int, objects: int, size: float, writes: bool) -> live.Program:
        """Objects over a few connections at once; resident workers send one message instead."""
        if self.resident:
            if objects and writes:
                other = (number + 1) % self.workers
                yield live.send(f"worker {other}", objects * size, "labels", wait=True)
            return
        lanes = [
            objects // self.connections + (k < objects % self.connections)
            for k in range(self.connections)
        ]
        yield live.all_of(*(_lane(count, size, writes) for count in lanes if count))

    def _barrier(self, me: live.Actor) -> live.Program:
        """All have come this far."""
        for other in range(self.workers):
            yield live.send(f"worker {other}", 0, ("here", len(self.busy)))
        yield live.receive(lambda m: m.body[0] == "here", count=self.workers)


def _lane(count: int, size: float, writes: bool) -> live.Program:
    for _ in range(count):
        yield live.store("objects", size) if writes else live.load("objects", size)
