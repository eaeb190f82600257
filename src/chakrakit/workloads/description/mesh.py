"""Which rank is where: coordinates on the axes, process groups, and peers.

Data-parallel and context-parallel ranks together hold the tokens; experts are spread over groups of
`ep` neighbours among them (context fastest), and ZeRO shards over groups of `shard`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.workloads.description.description import Plan

EXCHANGES = ("keys:", "grads:")
"""How the roles of attention in blocks begin: keys and values that are sent, and gradients that go back."""


@dataclass(frozen=True)
class Mesh:
    """The ranks of a plan. Roles name groups: tp, cp, ep, dp (dp × cp), edp, shard, replica, …."""

    plan: Plan
    first: int = 0
    """The lowest rank, for workloads of several meshes."""
    ends: tuple[int, int] = (0, 0)
    """The stages that hold the first and the last piece, which share a tied table."""
    _cache: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _peers: dict[str, I64] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.plan.world

    @cached_property
    def coordinates(self) -> dict[str, I64]:
        """For each axis, the coordinate of every rank."""
        rest = np.arange(self.size)
        coordinates: dict[str, I64] = {}
        for axis in self.plan.order.split("-"):
            if axis != "ep":  # nested in dp × cp, wherever the order names it
                degree = getattr(self.plan, axis)
                coordinates[axis], rest = rest % degree, rest // degree
        data = coordinates["dp"] * self.plan.cp + coordinates["cp"]
        folded = self.plan.folds_experts
        lane = data * self.plan.tp + coordinates["tp"] if folded else data
        shard = self.plan.shard or self.plan.dp * self.plan.cp
        return {
            **coordinates,
            "data": data,
            "ep": lane % self.plan.ep,
            "edp": lane // self.plan.ep,
            "shard": data % shard,
            "replica": data // shard,
        }

    def degree(self, role: str) -> int:
        """How many ranks a group of this role has."""
        return len(self._groups(role)[1][0])

    def group_of(self, role: str) -> I64:
        """Returns for every rank the number of its group of this role; -1 for ranks in none."""
        return self._groups(role)[0]

    def members(self, role: str) -> list[list[int]]:
        """The groups of a role, each in the order of its own axis."""
        return self._groups(role)[1]

    def _groups(self, role: str) -> tuple[I64, list[list[int]]]:
        if role not in self._cache:
            self._cache[role] = self._ranks_by_group(role)
        groups: tuple[I64, list[list[int]]] = self._cache[role]
        return groups

    def _ranks_by_group(self, role: str) -> tuple[I64, list[list[int]]]:
        key = self._key(role)
        inside = np.flatnonzero(key >= 0)
        _, number = np.unique(key[inside], return_inverse=True)
        group = np.full(self.size, -1)
        group[inside] = number
        order = inside[np.lexsort((inside, self._place(role)[inside], number))]
        bounds = np.searchsorted(group[order], np.arange(number.max() + 2 if len(number) else 1))
        ranks = (order + self.first).tolist()
        return group, [ranks[a:b] for a, b in itertools.pairwise(bounds)]

    def _key(self, role: str) -> I64:
        """Returns a number that the ranks of one group share; -1 for ranks in no group."""
        c, plan = self.coordinates, self.plan
        if role == "world":
            return np.zeros(self.size, np.int64)
        if role == "mp":
            return c["data"]
        site = c["pp"] * plan.tp + c["tp"]
        width = plan.dp * plan.cp
        home = c["pp"] if plan.folds_experts else site
        node = plan.exchange_node or plan.ep
        if role == "embedding":
            at_ends = np.isin(c["pp"], self.ends)
            return np.where(at_ends, c["data"] * plan.tp + c["tp"], -1)
        if role in ("copy", "copy_edp"):
            pair = np.minimum(c["pp"], plan.pp - 1 - c["pp"]) * plan.tp + c["tp"]
            place = pair // plan.tp if plan.folds_experts else pair
            return pair if role == "copy" else place * plan.ep + c["ep"]
        inner = {
            "tp": c["data"] + width * c["pp"],
            "cp": site * width + c["dp"],
            "ep": home * plan.world + c["edp"],
            "ep_far": (home * plan.world + c["edp"]) * node + c["ep"] % node,
            "ep_near": (home * plan.world + c["edp"]) * plan.ep + c["ep"] // node,
            "dp": site,
            "edp": home * plan.world + c["ep"],
            "shard": site * width + c["replica"],
            "replica": site * width + c["shard"],
        }
        return inner[role]

    def _place(self, role: str) -> I64:
        """Returns the key by which ranks are ordered within a group."""
        axis_of_role = {
            "tp": "tp",
            "cp": "cp",
            "ep": "ep",
            "ep_far": "ep",
            "ep_near": "ep",
            "dp": "data",
            "edp": "edp",
            "shard": "shard",
            "replica": "replica",
        }
        return (
            self.coordinates[axis_of_role[role]] if role in axis_of_role else np.arange(self.size)
        )

    def ranks_at(self, stage: int) -> I64:
        """The ranks of a pipeline stage, lowest first."""
        return np.flatnonzero(self.coordinates["pp"] == stage)

    def peers(self, ranks: I64, role: str) -> I64:
        """Returns each rank's peer: `pp:STAGE`, `cp_next`, `cp_prev`, or rank N for `rank:N`.

        Of `keys:DISTANCE` and `grads:DISTANCE` it is the rank at that distance on the axis cp.
        """
        if role not in self._peers:
            self._peers[role] = self._peers_of_all(role)
        return self._peers[role][ranks]

    def _peers_of_all(self, role: str) -> I64:
        if role.startswith("rank:"):
            return np.full(self.size, int(role[5:]))
        c = {axis: self.coordinates[axis].copy() for axis in ("tp", "cp", "dp", "pp")}
        if role.startswith("pp:"):
            c["pp"][:] = int(role[3:])
        elif role.startswith(EXCHANGES):
            c["cp"] = (c["cp"] + int(role.partition(":")[2])) % self.plan.cp
        else:
            c["cp"] = (c["cp"] + (1 if role == "cp_next" else -1)) % self.plan.cp
        return self.rank_of(c) + self.first

    def rank_of(self, c: dict[str, I64]) -> I64:
        """The rank at given coordinates."""
        rank, stride = np.zeros_like(c["tp"]), 1
        for axis in self.plan.order.split("-"):
            if axis != "ep":
                rank, stride = rank + c[axis] * stride, stride * getattr(self.plan, axis)
        return rank
