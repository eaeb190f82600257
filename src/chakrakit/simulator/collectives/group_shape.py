"""How a group lies on a machine: the shape from which the algorithm of a collective is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.fabric import Machine, Routes, span_of
from chakrakit.machines.library import Span


class Way(NamedTuple):
    """The worst latency (s) and bandwidth (bytes/s) of a set of routes, all in use at once."""

    latency: float
    bandwidth: float


class GroupAxis(NamedTuple):
    """A dimension that a group spans: its places, the worst way to the next place, its topology."""

    size: int
    way: Way
    topology: str


@dataclass(frozen=True)
class GroupShape:
    """How a group lies on a machine; groups of equal shape use the same algorithm.

    `ring`: between neighbours in the group's order; `far`: the latency from the first to any other, and
    the bandwidth when everyone sends half way round the group; `fan`: how many routes of the first member
    leave on links of their own; `axes`: the dimensions it fills as a grid, innermost
    first, or none; `reduces`: whether one switch can reduce for it.
    """

    n: int
    ring: Way
    far: Way
    fan: int
    axes: tuple[GroupAxis, ...]
    reduces: bool
    span: Span | None = None
    """The group as the machine's communication library sees it; None without a library."""


def shapes(machine: Machine, members: I64) -> list[GroupShape]:
    """The shape of each group; row g of `members` holds the devices of group g."""
    copies, n = members.shape
    ring = _ways(machine, members, np.roll(members, -1, 1))
    head = machine.routes(
        np.repeat(members[:, 0], n - 1), np.ascontiguousarray(members[:, 1:]).reshape(-1)
    )
    latest = head.latency(machine.links).reshape(copies, -1).max(1)
    narrowest = head.bandwidth(machine.links).reshape(copies, -1).min(1)
    across = _ways(machine, members, np.roll(members, -(n // 2), 1))
    fans = _fans(head, copies)
    places = np.stack([machine.address(members, k) for k in range(len(machine.dimensions))])
    by_placement: dict[bytes, tuple[tuple[GroupAxis, ...], bool, Span | None]] = {}
    out = []
    for g in range(copies):
        key = np.ascontiguousarray(places[:, g] - places[:, g, :1]).tobytes()
        if key not in by_placement:
            reduces = machine.reduction_links(members[g]) is not None
            span = span_of(machine, members[g]) if machine.library is not None else None
            by_placement[key] = (_axes(machine, members[g], places[:, g]), reduces, span)
        far = Way(float(latest[g]), min(float(narrowest[g]), across[g].bandwidth))
        out.append(GroupShape(n, ring[g], far, fans[g], *by_placement[key]))
    return out


def _ways(machine: Machine, src: I64, dst: I64) -> list[Way]:
    """For every group g, the worst way from src[g, i] to dst[g, i] while all its members send at once."""
    copies, n = src.shape
    routes = machine.routes(src.reshape(-1), dst.reshape(-1))
    latency = routes.latency(machine.links).reshape(copies, -1).max(1)
    group = np.repeat(np.arange(len(routes)) // n, np.diff(routes.offsets))
    used, load = np.unique(group * len(machine.links) + routes.links, return_counts=True)
    share = machine.links.bandwidth[used % len(machine.links)] / load
    bandwidth = np.full(copies, np.inf)
    np.minimum.at(bandwidth, used // len(machine.links), share)
    return [Way(float(a), float(b)) for a, b in zip(latency, bandwidth, strict=True)]


def _fans(routes: Routes, copies: int) -> list[int]:
    first = routes.links[routes.offsets[:-1]].reshape(copies, -1)
    ordered = np.sort(first, 1)
    return [int(f) for f in (np.diff(ordered, axis=1) != 0).sum(1) + 1]


def grid_of(machine: Machine, members: I64) -> I64 | None:
    """The group's positions as a grid with one axis per dimension it spans; None if it does not fill one."""
    places = [machine.address(members, k) for k in range(len(machine.dimensions))]
    values = [np.unique(p) for p in places]
    shape = [len(v) for v in values]
    if int(np.prod(shape)) != len(members):
        return None
    index = np.ravel_multi_index(
        [np.searchsorted(v, p) for v, p in zip(values, places, strict=True)], shape
    )
    if len(np.unique(index)) != len(members):
        return None
    grid = np.zeros(len(members), np.int64)
    grid[index] = np.arange(len(members))
    return grid.reshape([s for s in shape if s > 1] or [1])


def _axes(machine: Machine, members: I64, places: I64) -> tuple[GroupAxis, ...]:
    grid = grid_of(machine, members)
    if grid is None:
        return ()
    spanned = [k for k in range(len(machine.dimensions)) if len(np.unique(places[k])) > 1]
    axes = []
    for axis, k in enumerate(spanned):
        src = members[grid.reshape(-1)]
        dst = members[np.roll(grid, -1, axis).reshape(-1)]
        way = _ways(machine, src[None, :], dst[None, :])[0]
        axes.append(GroupAxis(grid.shape[axis], way, machine.dimensions[k].fabric.shape))
    return tuple(axes)
