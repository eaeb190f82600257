"""Which ranks are alike: the coarsest classes of ranks and groups in which like ranks have like company.

Two ranks are alike when their keys are equal and, role by role, so are the classes of their groups and of
their peers; ranks that exchange messages with the very same rank, each in its turn, are not. Two groups are
alike when their keys are equal and they have as many members of each class in each role. Both are refined
together until nothing splits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64


class Company(NamedTuple):
    """A group as its members see it: parallel arrays."""

    rank: I64
    """The place of each member among the ranks, -1 for one that was not recorded."""
    role: I64
    """The number of the name under which the member knows the group, -1 for none."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each rank and of each group, by their places; classes are numbered by their first."""

    rank: I64
    group: I64

    @staticmethod
    def apart(ranks: int, groups: int) -> Classes:
        """Every rank and every group its own class."""
        return Classes(np.arange(ranks), np.arange(groups))

    @cached_property
    def first(self) -> I64:
        """The first rank of each class, ascending; it stands for the others."""
        return np.asarray(np.unique(self.rank, return_index=True)[1], np.int64)

    @cached_property
    def first_group(self) -> I64:
        """The first group of each class, ascending."""
        return np.asarray(np.unique(self.group, return_index=True)[1], np.int64)

    @property
    def count(self) -> int:
        """How many classes of ranks there are."""
        return len(self.first)

    @property
    def factor(self) -> float:
        """Ranks for each class."""
        return len(self.rank) / max(1, self.count)

    @cached_property
    def _ranks(self) -> list[I64]:
        return _members(self.rank)

    @cached_property
    def _groups(self) -> list[I64]:
        return _members(self.group)

    def ranks_of(self, number: int) -> I64:
        """The ranks of a class, ascending."""
        return self._ranks[number]

    def groups_of(self, number: int) -> I64:
        """The groups of a class, ascending."""
        return self._groups[number]


def _members(classes: I64) -> list[I64]:
    order = np.argsort(classes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(classes))[:-1]) if len(order) else []


def like_classes(
    rank_keys: Sequence[Hashable],
    group_keys: Sequence[Hashable],
    groups_of: Sequence[tuple[int, ...]],
    peers_of: Sequence[I64],
    groups: Sequence[Company],
) -> Classes:
    """The coarsest classes in which equal members have equal keys, groups and peers.

    `groups_of` gives the groups of each rank, one per role of its program; `peers_of` the places of the
    ranks it exchanges messages with, in a fixed order, -1 for one that was not recorded.
    """
    rank = _numbered(rank_keys)
    while True:
        group = _group_classes(groups, group_keys, rank)
        turn = _turns(rank, peers_of).tolist()
        keys = [
            (mine, turn[i], tuple([group[g] for g in groups_of[i]]), _classes_of(rank, peers_of[i]))
            for i, mine in enumerate(rank.tolist())
        ]
        finer = _numbered(keys)
        if finer.max(initial=-1) == rank.max(initial=-1):
            return Classes(rank, np.array(group, np.int64))
        rank = finer


def _numbered(keys: Sequence[Hashable]) -> I64:
    """A number for each distinct key, in order of first use."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.int64)


def _classes_of(rank: I64, peers: I64) -> bytes:
    return np.where(peers >= 0, rank[peers], -1).tobytes() if len(peers) else b""


def _turns(rank: I64, peers_of: Sequence[I64]) -> I64:
    """By rank, how many ranks of its class before it have the same peer in the same place.

    Such a peer tells them apart: it has a message for each, and the class would have one.
    """
    turn = np.zeros(len(rank), np.int64)
    for members in _members(rank):
        if len(members) > 1 and len(peers_of[members[0]]):
            peers = np.stack([peers_of[i] for i in members.tolist()])
            for column in peers.T:
                order = np.argsort(column, kind="stable")
                first = np.searchsorted(column[order], column[order])
                again = np.where(column[order] >= 0, np.arange(len(order)) - first, 0)
                turn[members[order]] = np.maximum(turn[members[order]], again)
    return turn


def _group_classes(groups: Sequence[Company], keys: Sequence[Hashable], rank: I64) -> list[int]:
    roles = 2 + max((int(g.role.max(initial=-1)) for g in groups), default=-1)
    signatures: list[Hashable] = []
    for g, key in zip(groups, keys, strict=True):
        members = np.where(g.rank >= 0, rank[g.rank], -1) * roles + g.role + 1
        signatures.append((key, np.sort(members).tobytes()))
    numbers: list[int] = _numbered(signatures).tolist()
    return numbers
