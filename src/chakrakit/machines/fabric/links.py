"""Links and routes as arrays, in the form the simulator's core reads; stores and their servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import F64, I64


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links between vertices: entry i of each array belongs to link i.

    `bandwidth` is bytes/s, `latency` seconds. A cable is two links.
    """

    src: I64
    dst: I64
    bandwidth: F64
    latency: F64

    def __len__(self) -> int:
        return len(self.src)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float, float]]) -> Links:
        """From (src, dst, bandwidth, latency) rows."""
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
        return cls(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.float64),
            np.array(columns[3], np.float64),
        )

    @classmethod
    def concat(cls, parts: Sequence[Links]) -> Links:
        """All links of the parts, in order."""
        if not parts:
            return cls.of([])
        return cls(
            *(
                np.concatenate([getattr(p, n) for p in parts])
                for n in ("src", "dst", "bandwidth", "latency")
            )
        )


@dataclass(frozen=True)
class BandwidthChange:
    """From `at` seconds on, links have `factor` times their bandwidth; 0 lets nothing through."""

    at: float
    factor: float


Schedule = tuple[BandwidthChange, ...]
"""Changes of a bandwidth over time, in order."""


@dataclass(frozen=True, eq=False)
class Routes:
    """The links on the way of each pair, in order: pair i has `links[offsets[i]:offsets[i + 1]]`."""

    offsets: I64
    links: I64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def route(self, i: int) -> I64:
        """The links of pair i."""
        return self.links[self.offsets[i] : self.offsets[i + 1]]

    def latency(self, links: Links) -> F64:
        """Seconds from end to end of each route."""
        return core.sim_sums(self.offsets, self.links, links.latency)

    def bandwidth(self, links: Links) -> F64:
        """Bytes/s of the narrowest link of each route; infinite for a route without links."""
        out = np.full(len(self), np.inf)
        crosses = np.diff(self.offsets) > 0
        if crosses.any():
            each = links.bandwidth[self.links]
            out[crosses] = np.minimum.reduceat(each, self.offsets[:-1][crosses])
        return out


class RouteParts:
    """Collects the hops of many pairs, stage by stage, and builds their routes."""

    def __init__(self, pairs: int) -> None:
        self.pairs = pairs
        self._parts: list[tuple[I64, I64, I64]] = []
        self._stage = 0

    def add(self, pair: I64, link: I64) -> None:
        """Adds one hop to each of these pairs; calls must come in the order of the hops."""
        self._parts.append((pair, np.full(len(pair), self._stage, np.int64), link))
        self._stage += 1

    def add_routes(self, pair: I64, routes: Routes) -> None:
        """Adds a whole route to each pair: the i-th route to pair[i]."""
        hops = np.diff(routes.offsets)
        self._parts.append(
            (np.repeat(pair, hops), np.full(len(routes.links), self._stage, np.int64), routes.links)
        )
        self._stage += 1

    def build(self) -> Routes:
        """The routes of all pairs."""
        if not self._parts:
            return Routes(np.zeros(self.pairs + 1, np.int64), np.zeros(0, np.int64))
        pair = np.concatenate([p[0] for p in self._parts])
        stage = np.concatenate([p[1] for p in self._parts])
        link = np.concatenate([p[2] for p in self._parts])
        order = np.lexsort((stage, pair))  # stable: hops of one stage stay in order
        counts = np.bincount(pair, minlength=self.pairs)
        return Routes(np.r_[0, np.cumsum(counts)].astype(np.int64), link[order])


# Stores: where data and checkpoints lie, and the servers that ranks reach them through.


StoreKind = Literal["local", "peer", "remote"]
"""A disk in every node, the memory of another node, or servers on the network."""
WhenFull = Literal["wait", "refuse"]
"""What happens to an operation when the queue is full: it waits at its rank, or the run is refused."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """One tier of storage. Rates are bytes/s of one server, each way; 0 stands for no limit.

    A local store has a server in every node, which the node's devices reach without the network. A peer
    store is the memory of the node that is `distance` nodes away. A remote store has its servers in place of
    the nodes `at`; node i uses server i mod n. Devices reach both over the network, on their own rail.
    """

    name: str
    kind: StoreKind
    bandwidth: float
    """For writing."""
    read_bandwidth: float
    latency: float = 0.0
    """Seconds of an operation before its bytes flow; it counts as in flight meanwhile."""
    operations: int = 0
    """In flight at each server; the others wait in its queue, first come, first served."""
    queue: int = 0
    """Operations that may wait at each server."""
    when_full: WhenFull = "wait"
    capacity: float = 0.0
    """Bytes that each server can hold of what one run writes."""
    page: int = 0
    """Bytes that are read or written at least, and in whole multiples, of every piece of an operation."""
    at: tuple[int, ...] = ()
    distance: int = 1
    schedule: Schedule = ()
    """How the bandwidth of its servers changes over time."""

    def moved(self, size: int, pieces: int) -> int:
        """The bytes that an operation of so many pieces moves: whole pages of each."""
        if not self.page:
            return size
        each = -(-size // pieces)
        return pieces * -(-each // self.page) * self.page

    def homes(self, nodes: int) -> I64:
        """The node of each server."""
        return np.array(self.at, np.int64) if self.kind == "remote" else np.arange(nodes)

    def server(self, node: I64, nodes: int) -> I64:
        """The server that each of these nodes uses."""
        if self.kind == "remote":
            return node % len(self.at)
        return (node + (self.distance if self.kind == "peer" else 0)) % nodes

    def links(self, nodes: int, node_size: int, first_vertex: int) -> Links:
        """For each server one link for writes and one for reads, at the first device of its node."""
        port = self.homes(nodes) * node_size
        server = first_vertex + np.arange(len(port))
        ends = np.stack([port, server], 1)
        rates = np.tile([self.bandwidth, self.read_bandwidth], len(port))
        return Links(ends.reshape(-1), ends[:, ::-1].reshape(-1), rates, np.zeros(len(rates)))
