"""Stores: where data and checkpoints lie, and the servers that ranks reach them through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.fabric.links import Links

StoreKind = Literal["local", "peer", "remote"]
"""A disk in every node, the memory of another node, or servers on the network."""
WhenFull = Literal["wait", "refuse"]
"""What becomes of an operation that finds a full queue: it waits at its rank, or the run is refused."""


@dataclass(frozen=True)
class Store:
    """One tier of storage. Rates are bytes/s of one server, each way; 0 stands for no limit.

    A local store has a server in every node, which its devices reach over no network. A peer store is the
    memory of the node `distance` further on, and a remote one has its servers in place of the nodes `at`;
    node i uses the (i mod n)-th of n servers. Both are reached over the network, on the rail that the
    device has.
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
    at: tuple[int, ...] = ()
    distance: int = 1

    def homes(self, nodes: int) -> I64:
        """The node of each server."""
        return np.array(self.at, np.int64) if self.kind == "remote" else np.arange(nodes)

    def server(self, node: I64, nodes: int) -> I64:
        """The server that each of these nodes uses."""
        if self.kind == "remote":
            return node % len(self.at)
        return (node + (self.distance if self.kind == "peer" else 0)) % nodes

    def links(self, nodes: int, node_size: int, first_vertex: int) -> Links:
        """For each server a link that writes take and one that reads take, at the node's first device."""
        port = self.homes(nodes) * node_size
        server = first_vertex + np.arange(len(port))
        ends = np.stack([port, server], 1)
        rates = np.tile([self.bandwidth, self.read_bandwidth], len(port))
        return Links(ends.reshape(-1), ends[:, ::-1].reshape(-1), rates, np.zeros(len(rates)))
