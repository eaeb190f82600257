"""Fabrics: ports joined in one regular shape, with every route known by arithmetic.

A fabric numbers its vertices with the ports first and the switches after them. `routes(a, b)` gives
the links from port a[i] to port b[i] for all i at once; where several shortest ways exist, the choice
is ECMP's hash of the pair, or the destination's digits, one for each level (`modulo`), which spreads
regular traffic evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric.links import Links, RouteParts, Routes, mix


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

    def routes(self, a: I64, b: I64) -> Routes:
        """The links from port a[i] to port b[i], which must be different ports."""
        ...


def _one_hop(link: I64) -> Routes:
    return Routes(np.arange(len(link) + 1, dtype=np.int64), link)


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

    def routes(self, a: I64, b: I64) -> Routes:
        """The one link from each a[i] to b[i]."""
        return _one_hop(a * (self.ports - 1) + b - (b > a))


@dataclass(frozen=True, eq=False)
class Ring:
    """Ports in a circle or a line, each linked to the next; routes go the shorter way, clockwise on ties."""

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

    def routes(self, a: I64, b: I64) -> Routes:
        """Hop by hop along the circle."""
        n, cables = self.ports, len(self.links) // 2
        ahead = (b - a) % n if self.closed else np.maximum(b - a, 0)
        behind = (a - b) % n if self.closed else np.maximum(a - b, 0)
        forward = (ahead <= behind) if self.closed else b > a
        hops = np.where(forward, ahead, behind)
        offsets = np.r_[0, np.cumsum(hops)].astype(np.int64)
        step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], hops)
        way, start = np.repeat(forward, hops), np.repeat(a, hops)
        link = np.where(way, (start + step) % n, cables + (start - 1 - step) % n)
        return Routes(offsets, link)


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
        ways = tuple(uplinks or [max(1, math.ceil(k / oversubscription)) for k in arity[:-1]])
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

    def routes(self, a: I64, b: I64) -> Routes:
        """Up to the lowest common switch, and down."""
        parts, pair = RouteParts(len(a)), np.arange(len(a))
        parts.add(pair, a)
        downs = [(pair, self.ports + b)]
        plane, size, planes = np.zeros(len(a), np.int64), self.arity[0], 1
        base = 2 * self.ports
        for level, q in enumerate(self.uplinks):
            pair = pair[a[pair] // size != b[pair] // size]
            # Another digit of the destination at every level: one digit alone would leave most of the
            # ways of the upper levels unused, as all that reaches a switch there has the same.
            hashed = mix(a[pair], b[pair], level).astype(np.int64)
            choice = (b[pair] // planes if self.modulo else hashed) % q
            count = self.switches[level] * q
            climb = (a[pair] // size * planes + plane[pair]) * q + choice
            parts.add(pair, base + climb)
            downs.append(
                (pair, base + count + (b[pair] // size * planes + plane[pair]) * q + choice)
            )
            plane[pair] = plane[pair] * q + choice
            size, planes, base = size * self.arity[level + 1], planes * q, base + 2 * count
        for down in reversed(downs):
            parts.add(*down)
        return parts.build()


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

    def routes(self, a: I64, b: I64) -> Routes:
        """Port, router, at most one local hop, the cable, at most one local hop, port."""
        parts, pair = RouteParts(len(a)), np.arange(len(a))
        ra, rb = a // self.hosts, b // self.hosts
        ga, gb = ra // self.routers, rb // self.routers
        per = -(-(self.groups - 1) // self.routers)
        far = ga != gb
        leave = np.where(far, ga * self.routers + (gb - ga - 1) % self.groups // per, rb)
        enter = np.where(far, gb * self.routers + (ga - gb - 1) % self.groups // per, rb)
        parts.add(pair, a)
        self._local(parts, pair, ra, leave)
        base = 2 * self.ports + self.groups * self.routers * (self.routers - 1)
        parts.add(pair[far], base + (ga * (self.groups - 1) + gb - (gb > ga))[far])
        self._local(parts, pair, np.where(far, enter, rb), rb)
        parts.add(pair, self.ports + b)
        return parts.build()

    def _local(self, parts: RouteParts, pair: I64, a: I64, b: I64) -> None:
        differ = a != b
        x, y = a[differ] % self.routers, b[differ] % self.routers
        group = a[differ] // self.routers
        link = group * self.routers * (self.routers - 1) + x * (self.routers - 1) + y - (y > x)
        parts.add(pair[differ], 2 * self.ports + link)


def lone_port() -> Full:
    """One port and no link."""
    return Full(1, Links.of([]))
