"""The algorithms of each collective, which of them a group can use, and an α-β estimate of their times.

Like the tables of communication libraries, the estimate depends on the size and on the group's shape: the
worst latency α and the worst bandwidth of the routes an algorithm uses. It does not include traffic that
an algorithm puts in its own way; a simulation lays the schedules on the links and takes the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.library import Span, bus_factor
from chakrakit.simulator.collectives import algorithms as a
from chakrakit.simulator.collectives.collective_steps import CollectiveSteps
from chakrakit.simulator.collectives.group_shape import GroupShape
from chakrakit.simulator.collectives.hierarchical import hierarchical
from chakrakit.trace.model import CollectiveType, collective_words

COLLECTIVES = {int(kind): collective_words(kind) for kind in CollectiveType}
"""CollectiveType numbers to the names used here."""

MOST_DIRECT = 64
"""Members up to which algorithms with messages between all pairs are considered: 64 members have 4,032."""
MOST_EXCHANGED = 256
"""The same of an all-to-all, which has a message for each pair by any algorithm: 65,280 may flow at once."""
MOST_CHUNKS = 64
"""Chunks of a pipeline: more hardly fill it faster, and the steps to simulate grow with them."""


@dataclass(frozen=True)
class Algorithms:
    """The algorithm of each collective, by name or `auto`; `chunks` sets the chunks of pipelines."""

    fixed: Mapping[str, str] = field(default_factory=dict)
    chunks: int = 0

    def __post_init__(self) -> None:
        for collective, name in self.fixed.items():
            names = ALGORITHMS.get(collective)
            if names is None:
                raise ConfigError(
                    f"no collective {collective!r}; {nearest(collective, ALGORITHMS)}"
                )
            if name != "auto" and name not in names:
                raise ConfigError(f"no algorithm {name!r} for {collective}; {nearest(name, names)}")

    def asked(self, collective: str, shape: GroupShape) -> str:
        """The algorithm that is asked for, which groups of this shape must allow; empty for `auto`."""
        name = self.fixed.get(collective, "auto")
        if name == "auto":
            return ""
        if name not in possible(collective, shape) and name not in _ANYWHERE:
            raise ConfigError(
                f"{collective} cannot use {name!r} on a group of {shape.n} that lies as this one does; "
                "in-switch needs all members on one reducing switch, hierarchical a full grid"
            )
        return name

    def moves(
        self,
        collective: str,
        name: str,
        size: float,
        shape: GroupShape,
        root: int,
        grid: I64 | None,
    ) -> CollectiveSteps:
        """The schedule of an algorithm for a group of this shape."""
        chunks = self.chunks or best_chunks(collective, name, size, shape)
        return _TABLE[collective][name].steps(Asked(collective, shape, chunks, root, grid))


_ANYWHERE = ("direct", "two-way-ring")
"""Those that work in any group, though among many members, or without a circle, they are not considered."""


def possible(collective: str, shape: GroupShape) -> list[str]:
    """The algorithms to choose from for groups of this shape; of equally fast ones the earlier is used."""
    return [n for n in ALGORITHMS[collective] if estimate(collective, n, 1.0, shape) < math.inf]


# --- estimates ----------------------------------------------------------------------------------


def _ring(size: float, s: GroupShape, rounds: int) -> float:
    return rounds * (s.n - 1) * (s.ring.latency + size / s.n / s.ring.bandwidth)


def _two_way(size: float, s: GroupShape, rounds: int) -> float:
    """Half of the data each way, where a circle has links for both."""
    if [axis.topology for axis in s.axes] != ["ring"]:
        return math.inf
    return _ring(size / 2, s, rounds)


def _halving(size: float, s: GroupShape, rounds: int) -> float:
    steps = math.ceil(math.log2(s.n))
    return rounds * (steps * s.far.latency + (s.n - 1) / s.n * size / s.far.bandwidth)


def _tree(size: float, s: GroupShape) -> float:
    chunks = best_chunks("all-reduce", "double-tree", size, s)
    return _ticks(s.n, chunks) * (s.far.latency + 2 * size / chunks / s.far.bandwidth)


def _ticks(n: int, chunks: int) -> int:
    return chunks + 2 * math.ceil(math.log2(n)) - 1


def _hierarchical(size: float, s: GroupShape, rounds: int) -> float:
    if len(s.axes) < 2:
        return math.inf
    total, share = 0.0, size
    for axis in s.axes:
        each = share / axis.size / (2 if axis.topology == "ring" else 1)
        total += (axis.size - 1) * (axis.way.latency + each / axis.way.bandwidth)
        share /= axis.size
    return rounds * total


def _direct(size: float, s: GroupShape, rounds: int) -> float:
    if s.n > MOST_DIRECT:
        return math.inf
    return rounds * (s.far.latency + math.ceil((s.n - 1) / s.fan) * size / s.n / s.far.bandwidth)


def _switch(size: float, s: GroupShape, rounds: int) -> float:
    return s.far.latency + size / s.far.bandwidth if s.reduces else math.inf


def _direct_exchange(size: float, s: GroupShape) -> float:
    if s.n > MOST_EXCHANGED:
        return math.inf
    return s.far.latency + math.ceil((s.n - 1) / s.fan) * size / s.n / s.far.bandwidth


def _pairwise(size: float, s: GroupShape) -> float:
    return (s.n - 1) * (s.far.latency + size / s.n / s.far.bandwidth)


def _rooted_tree(size: float, s: GroupShape) -> float:
    return math.ceil(math.log2(s.n)) * (s.far.latency + size / s.far.bandwidth)


def _chain(size: float, s: GroupShape) -> float:
    chunks = best_chunks("broadcast", "ring", size, s)
    return (chunks + s.n - 2) * (s.ring.latency + size / chunks / s.ring.bandwidth)


def _rooted_direct(size: float, s: GroupShape) -> float:
    return s.far.latency + math.ceil((s.n - 1) / s.fan) * size / s.far.bandwidth


def best_chunks(collective: str, name: str, size: float, s: GroupShape) -> int:
    """The number of chunks that balances the latency of many ticks against a slowly filling pipeline."""
    if name == "double-tree":
        fill, way, width = 2 * math.ceil(math.log2(s.n)) - 1, s.far, 2.0
    elif name == "ring" and collective in ("broadcast", "reduce"):
        fill, way, width = s.n - 2, s.ring, 1.0
    else:
        return 1
    if way.latency == 0:
        return MOST_CHUNKS
    best = math.sqrt(width * size / way.bandwidth * fill / way.latency)
    return max(1, round(min(MOST_CHUNKS, best)))


# --- schedules ----------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What a schedule is made for."""

    collective: str
    shape: GroupShape
    chunks: int
    root: int
    grid: I64 | None


Make = Callable[[Asked], CollectiveSteps]


def _among(make: Callable[[int], CollectiveSteps]) -> Make:
    return lambda asked: make(asked.shape.n)


def _from_root(make: Callable[[int, int], CollectiveSteps]) -> Make:
    return lambda asked: make(asked.shape.n, asked.root)


def _chained(make: Callable[[int, int, int], CollectiveSteps]) -> Make:
    return lambda asked: make(asked.shape.n, asked.chunks, asked.root)


def _on_grid(asked: Asked) -> CollectiveSteps:
    assert asked.grid is not None
    by_topology = {"full": "direct", "ring": "two-way-ring"}
    ways = [by_topology.get(axis.topology, "ring") for axis in asked.shape.axes]
    return hierarchical(asked.grid, asked.collective, ways)


# --- the algorithms -----------------------------------------------------------------------------


class Algorithm(NamedTuple):
    """A way to do a collective: its estimated seconds, and its schedule."""

    seconds: Callable[[float, GroupShape], float]
    steps: Make


def _in_rounds(
    estimate: Callable[[float, GroupShape, int], float], rounds: int, steps: Make
) -> Algorithm:
    """One whose estimate depends on how often the data goes around: twice in an all-reduce."""
    return Algorithm(lambda size, shape: estimate(size, shape, rounds), steps)


def _at_once(_size: float, _shape: GroupShape) -> float:
    """Of collectives that have only one algorithm, which nothing is compared with."""
    return 0.0


_TABLE: dict[str, dict[str, Algorithm]] = {
    "all-reduce": {
        "in-switch": _in_rounds(_switch, 2, _among(a.switch_all_reduce)),
        "ring": _in_rounds(_ring, 2, _among(a.ring_all_reduce)),
        "two-way-ring": _in_rounds(_two_way, 2, _among(a.two_way_all_reduce)),
        "halving-doubling": _in_rounds(_halving, 2, _among(a.halving_doubling_all_reduce)),
        "double-tree": Algorithm(
            _tree, lambda asked: a.tree_all_reduce(asked.shape.n, asked.chunks)
        ),
        "hierarchical": _in_rounds(_hierarchical, 2, _on_grid),
        "direct": _in_rounds(_direct, 2, _among(a.direct_all_reduce)),
    },
    "reduce-scatter": {
        "in-switch": _in_rounds(_switch, 1, _among(a.switch_reduce_scatter)),
        "ring": _in_rounds(_ring, 1, _among(a.ring_reduce_scatter)),
        "two-way-ring": _in_rounds(_two_way, 1, _among(a.two_way_reduce_scatter)),
        "halving-doubling": _in_rounds(_halving, 1, _among(a.halving_reduce_scatter)),
        "hierarchical": _in_rounds(_hierarchical, 1, _on_grid),
        "direct": _in_rounds(_direct, 1, _among(a.direct_reduce_scatter)),
    },
    "all-gather": {
        "in-switch": _in_rounds(_switch, 1, _among(a.switch_all_gather)),
        "ring": _in_rounds(_ring, 1, _among(a.ring_all_gather)),
        "two-way-ring": _in_rounds(_two_way, 1, _among(a.two_way_all_gather)),
        "halving-doubling": _in_rounds(_halving, 1, _among(a.doubling_all_gather)),
        "hierarchical": _in_rounds(_hierarchical, 1, _on_grid),
        "direct": _in_rounds(_direct, 1, _among(a.direct_all_gather)),
    },
    "all-to-all": {
        "direct": Algorithm(_direct_exchange, _among(a.direct_all_to_all)),
        "pairwise": Algorithm(_pairwise, _among(a.pairwise_all_to_all)),
    },
    "broadcast": {
        "tree": Algorithm(_rooted_tree, _from_root(a.binomial_broadcast)),
        "ring": Algorithm(_chain, _chained(a.ring_broadcast)),
        "direct": Algorithm(_rooted_direct, _from_root(a.direct_broadcast)),
    },
    "reduce": {
        "tree": Algorithm(_rooted_tree, _from_root(a.binomial_reduce_to)),
        "ring": Algorithm(_chain, _chained(a.ring_reduce_to)),
        "direct": Algorithm(_rooted_direct, _from_root(a.direct_reduce_to)),
    },
    "gather": {"direct": Algorithm(_at_once, _from_root(a.direct_gather))},
    "scatter": {"direct": Algorithm(_at_once, _from_root(a.direct_scatter))},
    "barrier": {"dissemination": Algorithm(_at_once, _among(a.dissemination_barrier))},
}
"""By collective and name."""
ALGORITHMS = {collective: tuple(by_name) for collective, by_name in _TABLE.items()}
"""The names by collective, in this order."""


def estimate(collective: str, name: str, size: float, shape: GroupShape) -> float:
    """Estimated seconds of an algorithm; infinite where it does not apply."""
    return _TABLE[collective][name].seconds(size, shape)


def data_bytes(collective: str, size: float, n: int) -> float:
    """Bytes of all pieces of a collective's data, from a node's `comm_size`.

    An all-gather's and a gather's size is one member's shard; an all-to-all has n inputs.
    """
    return size * n if collective in ("all-gather", "gather", "all-to-all") else size


def moved_bytes(collective: str, size: float, n: int) -> float:
    """Bytes each member must send or receive at least, of `size` bytes of data."""
    return 0.0 if collective == "barrier" else bus_factor(collective, n) * size


def ideal_seconds(collective: str, size: float, shape: GroupShape) -> float:
    """Seconds that `size` bytes of data need at full bandwidth without latency.

    With a library, what devices and nodes must send: libraries use all ports of a node at once. Without
    one, the best of the algorithms there are.
    """
    if shape.span is not None:
        return _least_seconds(collective, size, shape.span)
    if collective in ("broadcast", "reduce"):
        return size / shape.ring.bandwidth  # a chain of pieces that are small enough
    axes = tuple(axis._replace(way=axis.way._replace(latency=0.0)) for axis in shape.axes)
    free = replace(
        shape, ring=shape.ring._replace(latency=0.0), far=shape.far._replace(latency=0.0), axes=axes
    )
    return min((estimate(collective, n, size, free) for n in ALGORITHMS[collective]), default=0.0)


def _least_seconds(collective: str, size: float, span: Span) -> float:
    """The longer of what each device must move by all of its ports and what each node by its own."""
    moved = moved_bytes(collective, size, span.members)
    if collective == "all-reduce" and span.reduces:
        moved = min(moved, size)  # a switch that reduces sends every sum once
    inside = moved / (span.link + span.port)
    if span.nodes == 1 or not moved:
        return inside
    # A node sends what a device would in its place: for an all-to-all, what all of its devices send away.
    away = 1 - span.local / span.members
    crossing = {
        "all-reduce": 2 * away,
        "all-to-all": span.local * away,
        "broadcast": 1.0,
        "reduce": 1.0,
    }
    return max(inside, crossing.get(collective, away) * size / span.leaving)
