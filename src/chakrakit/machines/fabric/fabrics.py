"""Fabrics: ports joined in one regular shape, with every route known by arithmetic.

A fabric numbers its vertices with the ports first and the switches after them. Its `ways` are those of
the core (core/sim/ways.hpp).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric.links import Links


class Fabric(Protocol):
    """The interface of every shape of fabric."""

    @property
    def shape(self) -> str:
        """The name of the shape."""
        ...

    @property
    def ports(self) -> int:
        """The number of ports that it joins."""
        ...

    @property
    def vertices(self) -> int:
        """Ports and switches."""
        ...

    @property
    def links(self) -> Links:
        """All directed links."""
        ...

    def ways(self) -> core.SimFabric:
        """The links from each port to each other."""
        ...


@dataclass(frozen=True, eq=False)
class Full:
    """A fabric in which every port has a link to every other."""

    ports: int
    links: Links
    shape: str = "full"

    @classmethod
    def make(cls, n: int, bandwidth: float, latency: float) -> Full:
        """A full fabric of n ports."""
        return cls(n, _all_pairs(np.zeros(1, np.int64), n, bandwidth, latency))

    @property
    def vertices(self) -> int:
        """Ports only."""
        return self.ports

    def ways(self) -> core.SimFabric:
        """One link for each pair."""
        return core.sim_full(self.ports)


@dataclass(frozen=True, eq=False)
class Ring:
    """Ports in a circle or a line, each linked to the next; routes go the shorter way.

    To the opposite port even ports go clockwise and odd ones the other way.
    """

    ports: int
    links: Links
    closed: bool = True

    @classmethod
    def make(cls, n: int, bandwidth: float, latency: float, closed: bool = True) -> Ring:
        """A ring of n ports; `closed=False` leaves out the link from the last port to the first."""
        # A circle of two is one cable, not two.
        closed = closed and n > 2
        cables = n if closed else n - 1
        near_end = np.arange(cables)
        forward = _uplinks(near_end, (near_end + 1) % n, bandwidth, latency)
        return cls(n, Links.concat([forward, _reversed(forward)]), closed)

    @property
    def shape(self) -> str:
        """`ring` or `line`."""
        return "ring" if self.closed else "line"

    @property
    def vertices(self) -> int:
        """Ports only."""
        return self.ports

    def ways(self) -> core.SimFabric:
        """Hop by hop along the circle."""
        return core.sim_ring(self.ports, self.closed)


def uplinks_of(arity: Sequence[int], oversubscription: float) -> list[int]:
    """The ways up from each switch below the top: as many as its children, or fewer by the factor given."""
    return [max(1, math.ceil(children / oversubscription)) for children in arity[:-1]]


@dataclass(frozen=True, eq=False)
class Tree:
    """A fat tree of switches; with one level, a single switch.

    `arity` counts the children of a switch, by level from the ports up. A switch of level i has
    `uplinks[i]` links up, which share evenly `1/oversubscription` of the bandwidth of its links down.
    """

    ports: int
    links: Links
    arity: tuple[int, ...]
    uplinks: tuple[int, ...]
    modulo: bool
    vertices: int
    switches: tuple[int, ...]

    @classmethod
    def make(
        cls,
        arity: Sequence[int],
        bandwidth: float,
        latency: float,
        oversubscription: float = 1.0,
        uplinks: Sequence[int] | None = None,
        modulo: bool = False,
    ) -> Tree:
        """The tree's switches and links."""
        arity = tuple(arity)
        ways = tuple(uplinks or uplinks_of(arity, oversubscription))
        if len(ways) != len(arity) - 1:
            raise ConfigError(
                f"uplinks: give {len(arity) - 1} numbers, one per level below the top"
            )
        n = math.prod(arity)
        counts = [n // math.prod(arity[: i + 1]) * math.prod(ways[:i]) for i in range(len(arity))]
        first = [n + sum(counts[:i]) for i in range(len(arity))]
        ups = [_uplinks(np.arange(n), np.arange(n) // arity[0] + first[0], bandwidth, latency)]
        for level, q in enumerate(ways):
            bandwidth = bandwidth * arity[level] / oversubscription / q
            low = np.repeat(np.arange(counts[level]), q)
            planes = math.prod(ways[:level])
            block, plane = low // planes // arity[level + 1], low % planes
            high = block * planes * q + plane * q + np.tile(np.arange(q), counts[level])
            ups.append(_uplinks(low + first[level], high + first[level + 1], bandwidth, latency))
        links = Links.concat([part for up in ups for part in (up, _reversed(up))])
        return cls(n, links, arity, ways, modulo, n + sum(counts), tuple(counts))

    @property
    def shape(self) -> str:
        """`switch` or `fat-tree`."""
        return "switch" if len(self.arity) == 1 else "fat-tree"

    def ways(self) -> core.SimFabric:
        """Up to the lowest common switch, and down."""
        return core.sim_tree(self.arity, self.uplinks, self.switches, self.modulo)


def _uplinks(low: I64, high: I64, bandwidth: float, latency: float) -> Links:
    return Links(low, high, np.full(len(low), bandwidth), np.full(len(low), latency))


def _all_pairs(first: I64, n: int, bandwidth: float, latency: float) -> Links:
    """Links between all pairs of each set of n vertices that begins at an entry of `first`."""
    a, b = np.divmod(np.arange(n * (n - 1), dtype=np.int64), max(n - 1, 1))
    b += b >= a
    low, high = (np.add.outer(first, end).ravel() for end in (a, b))
    return _uplinks(low, high, bandwidth, latency)


def _reversed(links: Links) -> Links:
    return Links(links.dst, links.src, links.bandwidth, links.latency)


@dataclass(frozen=True, eq=False)
class Dragonfly:
    """Groups of fully connected routers, with one cable between every two groups and minimal routes.

    The cable between groups i and j hangs at router ((j - i - 1) mod groups) // h of group i, where a
    router has h cables to other groups.
    """

    ports: int
    links: Links
    groups: int
    routers: int
    hosts: int
    shape: str = "dragonfly"

    @classmethod
    def make(
        cls,
        groups: int,
        routers: int,
        hosts: int,
        bandwidth: float,
        latency: float,
        oversubscription: float = 1.0,
    ) -> Dragonfly:
        """`groups` × `routers` × `hosts` ports; cables between groups are the oversubscribed ones."""
        n, per = groups * routers * hosts, -(-(groups - 1) // routers)
        port = np.arange(n)
        up = _uplinks(port, n + port // hosts, bandwidth, latency)
        router = n + np.arange(groups) * routers
        local = _all_pairs(router, routers, bandwidth, latency)
        far = _all_pairs(np.zeros(1, np.int64), groups, bandwidth / oversubscription, latency)
        i, j = far.src, far.dst
        far = _uplinks(
            router[i] + (j - i - 1) % groups // max(per, 1),
            router[j] + (i - j - 1) % groups // max(per, 1),
            bandwidth / oversubscription,
            latency,
        )
        links = Links.concat([up, _reversed(up), local, far])
        return cls(n, links, groups, routers, hosts)

    @property
    def vertices(self) -> int:
        """Ports and routers."""
        return self.ports + self.groups * self.routers

    def ways(self) -> core.SimFabric:
        """Port, router, at most one local hop, the cable, at most one local hop, port."""
        return core.sim_dragonfly(self.groups, self.routers, self.hosts)


def lone_port() -> Full:
    """One port and no link."""
    return Full(1, Links.of([]))
