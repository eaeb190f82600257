"""How tokens travel to the ranks that have their experts, and back.

    all-to-all   a copy for every expert of a token                 tokens × top-k
    once         one for every rank that has some of its experts    tokens × ranks reached
    gather       every token to every rank, and sums back           tokens × ranks

Of `once` with nodes, a token crosses to every node at most once, between ranks of the same place in their
nodes, and is handed on within the node. Routing is uniform, as in `chakra collective dispatch`, among the
groups of experts that the model lets a token go to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from chakrakit.machines.library import Routing, places_reached
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers.sharding import Move

AXIS = "ep"
FAR, NEAR = "ep_far", "ep_near"
"""Groups of ranks in the same place of different nodes, and of the ranks of one node."""
EXPERT_AXES = (AXIS, FAR, NEAR)
"""Groups over which tokens go to experts and back."""


@dataclass(frozen=True)
class Exchange:
    """The way of an exchange: its name, ranks, those of a node (0: all), and the model's routing."""

    name: str
    ranks: int
    node: int
    experts: int
    top_k: int
    groups: int = 0
    top_groups: int = 0
    """Groups of experts, and those of them that a token may go to; 0 for all."""

    def moves(self, move: Move) -> Iterator[Move]:
        """The collectives that carry out one exchange of a copy for every expert."""
        if move.kind is not CollectiveType.ALL_TO_ALL or move.axis != AXIS:
            yield move
        elif self.name == "gather":
            yield self._gathered(move)
        elif self.name == "once":
            yield from self._once(move)
        else:
            yield move

    def _gathered(self, move: Move) -> Move:
        own = ceil(move.size / self.top_k)
        if move.inwards:
            return replace(
                move, kind=CollectiveType.ALL_GATHER, size=own, out_size=own * self.ranks
            )
        return replace(
            move, kind=CollectiveType.REDUCE_SCATTER, size=own * self.ranks, out_size=own
        )

    def _once(self, move: Move) -> Iterator[Move]:
        whole = self._sized(move, AXIS, self.ranks)
        if not self.node or self.ranks <= self.node:
            yield whole
            return
        far = self._sized(move, FAR, self.ranks // self.node)
        steps = (far, replace(whole, axis=NEAR))
        yield from steps if move.inwards else steps[::-1]

    def _sized(self, move: Move, axis: str, places: int) -> Move:
        """The exchange of a token with every place that it reaches."""
        routing = Routing(1, 1, self.top_k, self.experts, self.top_groups)
        size = ceil(move.size / self.top_k * places_reached(places, self.groups, routing))
        return replace(move, axis=axis, size=size, out_size=size)
