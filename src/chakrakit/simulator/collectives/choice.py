"""The algorithms of each collective, which of them a group can use, and an α-β estimate of their times.

Like the tables of communication libraries, the estimate depends on the size and on the group's shape: the
worst latency α and the worst bandwidth of the routes an algorithm uses. It does not include traffic that
an algorithm puts in its own way; a simulation lays the schedules on the links and takes the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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

ALGORITHMS = {
    "all-reduce": (
        "in-switch",
        "ring",
        "two-way-ring",
        "halving-doubling",
        "double-tree",
        "hierarchical",
        "direct",
    ),
    "reduce-scatter": (
        "in-switch",
        "ring",
        "two-way-ring",
        "halving-doubling",
        "hierarchical",
        "direct",
    ),
    "all-gather": (
        "in-switch",
        "ring",
        "two-way-ring",
        "halving-doubling",
        "hierarchical",
        "direct",
    ),
    "all-to-all": ("direct", "pairwise"),
    "broadcast": ("tree", "ring", "direct"),
    "reduce": ("tree", "ring", "direct"),
    "gather": ("direct",),
    "scatter": ("direct",),
    "barrier": ("dissemination",),
}
"""Algorithms by collective; on equal estimates the earlier one is used."""

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

    def choose(self, collective: str, size: float, shape: GroupShape) -> str:
        """The algorithm for `size` bytes (all members' shards together) on groups of this shape."""
        fixed = self.fixed.get(collective, "auto")
        if fixed != "auto":
            return _possible(fixed, collective, shape)
        costs = {n: estimate(collective, n, size, shape) for n in ALGORITHMS[collective]}
        return min(costs, key=lambda n: costs[n])

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
        return make_moves(collective, name, shape, chunks, root, grid)


def _possible(name: str, collective: str, shape: GroupShape) -> str:
    if math.isinf(estimate(collective, name, 1.0, shape)) and name not in (
        "direct",
        "two-way-ring",
    ):
        raise ConfigError(
            f"{collective} cannot use {name!r} on a group of {shape.n} that lies as this one does; "
            "in-switch needs all members on one reducing switch, hierarchical a full grid"
        )
    return name


# --- estimates ----------------------------------------------------------------------------------


def estimate(collective: str, name: str, size: float, shape: GroupShape) -> float:
    """Estimated seconds of an algorithm; infinite where it does not apply."""
    if collective in ("all-reduce", "reduce-scatter", "all-gather"):
        rounds = 2 if collective == "all-reduce" else 1
        return _BLOCKWISE[name](size, shape, rounds)
    if collective == "all-to-all":
        return _all_to_all(name, size, shape)
    if collective in ("broadcast", "reduce"):
        return _rooted(name, size, shape)
    return 0.0


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


def _tree(size: float, s: GroupShape, rounds: int) -> float:
    if rounds == 1:
        return math.inf
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


_BLOCKWISE: dict[str, Callable[[float, GroupShape, int], float]] = {
    "in-switch": _switch,
    "ring": _ring,
    "two-way-ring": _two_way,
    "halving-doubling": _halving,
    "double-tree": _tree,
    "hierarchical": _hierarchical,
    "direct": _direct,
}


def _all_to_all(name: str, size: float, s: GroupShape) -> float:
    each = size / s.n / s.far.bandwidth
    if name == "direct":
        return (
            math.inf
            if s.n > MOST_EXCHANGED
            else s.far.latency + math.ceil((s.n - 1) / s.fan) * each
        )
    return (s.n - 1) * (s.far.latency + each)


def _rooted(name: str, size: float, s: GroupShape) -> float:
    if name == "tree":
        return math.ceil(math.log2(s.n)) * (s.far.latency + size / s.far.bandwidth)
    if name == "ring":
        chunks = best_chunks("broadcast", "ring", size, s)
        return (chunks + s.n - 2) * (s.ring.latency + size / chunks / s.ring.bandwidth)
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


def make_moves(
    collective: str, name: str, shape: GroupShape, chunks: int, root: int, grid: I64 | None
) -> CollectiveSteps:
    """The schedule of an algorithm, by name."""
    n = shape.n
    if name == "hierarchical":
        assert grid is not None
        by_topology = {"full": "direct", "ring": "two-way-ring"}
        ways = [by_topology.get(axis.topology, "ring") for axis in shape.axes]
        return hierarchical(grid, collective, ways)
    if collective == "barrier":
        return a.dissemination_barrier(n)
    if name == "double-tree":
        return a.tree_all_reduce(n, chunks)
    if collective in ("broadcast", "reduce"):
        return _rooted_moves(collective, name, n, chunks, root)
    if collective in ("gather", "scatter"):
        return a.direct_gather(n, root) if collective == "gather" else a.direct_scatter(n, root)
    return _BY_NAME[collective, name](n)


def _rooted_moves(collective: str, name: str, n: int, chunks: int, root: int) -> CollectiveSteps:
    down = collective == "broadcast"
    if name == "ring":
        return (a.ring_broadcast if down else a.ring_reduce_to)(n, chunks, root)
    if name == "tree":
        return (a.binomial_broadcast if down else a.binomial_reduce_to)(n, root)
    return (a.direct_broadcast if down else a.direct_reduce_to)(n, root)


_BY_NAME: dict[tuple[str, str], Callable[[int], CollectiveSteps]] = {
    ("all-reduce", "ring"): a.ring_all_reduce,
    ("all-reduce", "two-way-ring"): a.two_way_all_reduce,
    ("all-reduce", "direct"): a.direct_all_reduce,
    ("all-reduce", "halving-doubling"): a.halving_doubling_all_reduce,
    ("all-reduce", "in-switch"): a.switch_all_reduce,
    ("reduce-scatter", "ring"): a.ring_reduce_scatter,
    ("reduce-scatter", "two-way-ring"): a.two_way_reduce_scatter,
    ("reduce-scatter", "direct"): a.direct_reduce_scatter,
    ("reduce-scatter", "halving-doubling"): a.halving_reduce_scatter,
    ("reduce-scatter", "in-switch"): a.switch_reduce_scatter,
    ("all-gather", "ring"): a.ring_all_gather,
    ("all-gather", "two-way-ring"): a.two_way_all_gather,
    ("all-gather", "direct"): a.direct_all_gather,
    ("all-gather", "halving-doubling"): a.doubling_all_gather,
    ("all-gather", "in-switch"): a.switch_all_gather,
    ("all-to-all", "direct"): a.direct_all_to_all,
    ("all-to-all", "pairwise"): a.pairwise_all_to_all,
}


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
