"""Axis: ranks as equal replicas along one axis of a grid, and how groups lie on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isqrt

import numpy as np

from chakrakit.arrays import I64


class GroupPosition(Enum):
    """How a group lies on an axis."""

    WITHIN = "within one replica"
    ACROSS = "all replicas"
    ASKEW = "some replicas"


@dataclass(frozen=True)
class Axis:
    """`world` ranks as `size` replicas; the ranks of two neighbours are `stride` apart.

    A rank is (replica, site): rank = site % stride + stride × (replica + size × (site // stride)).
    """

    world: int
    stride: int
    size: int

    @property
    def sites(self) -> int:
        """Ranks of one replica."""
        return self.world // self.size

    def resized(self, size: int) -> Axis:
        """The same sites with another number of replicas."""
        return Axis(self.sites * size, self.stride, size)

    def replica(self, rank: I64 | int) -> I64 | int:
        """Which replica a rank is in."""
        return rank // self.stride % self.size

    def site(self, rank: I64 | int) -> I64 | int:
        """Where in its replica a rank is."""
        outer = rank // (self.stride * self.size)
        return rank % self.stride + self.stride * outer

    def rank(self, replica: I64 | int, site: I64 | int) -> I64 | int:
        """The rank at a place."""
        return site % self.stride + self.stride * (replica + self.size * (site // self.stride))

    def lie(self, ranks: I64) -> GroupPosition:
        """How these ranks lie on the axis."""
        replicas = np.asarray(self.replica(ranks))
        if len(ranks) == 0 or replicas.min() == replicas.max():
            return GroupPosition.WITHIN
        sites = np.unique(np.asarray(self.site(ranks)))
        return GroupPosition.ACROSS if len(sites) * self.size == len(ranks) else GroupPosition.ASKEW


def axes(world: int) -> Iterator[Axis]:
    """Every way to cut the ranks into two replicas or more, most replicas first."""
    small = [d for d in range(1, isqrt(world) + 1) if world % d == 0]
    divisors = sorted({*small, *(world // d for d in small)})
    for size in reversed(divisors[1:]):
        yield from (Axis(world, s, size) for s in divisors if world // size % s == 0)


def interleaving(places: Sequence[tuple[int, int]]) -> int | None:
    """How a list of all (item, replica) is ordered: by (item // L, replica, item % L), for some L.

    L of 1 has the replicas next to each other, L of all items one replica after another. None where
    no L gives the order.
    """
    items, replicas = (len({p[i] for p in places}) for i in (0, 1))
    if items * replicas != len(places):
        return None
    for length in (d for d in range(items, 0, -1) if items % d == 0):
        if list(places) == interleaved(items, replicas, length):
            return length
    return None


def interleaved(items: int, replicas: int, length: int) -> list[tuple[int, int]]:
    """All (item, replica) in the order that `interleaving` tells."""
    return [
        (high + low, replica)
        for high in range(0, items, length)
        for replica in range(replicas)
        for low in range(length)
    ]
