"""Which ranks are alike: the coarsest classes of ranks and groups in which like ranks have like company.

Two ranks are alike when their keys are equal and, role by role, so are the classes of their groups and of
their peers. Two groups are alike when their keys are equal and they have as many members of each class in
each role. Both are refined together until nothing splits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64


class Company(NamedTuple):
    """A group as its members see it: parallel arrays."""

    rank: I64
    """The place of each member among the ranks, -1 for one that was not recorded."""
    role: I64
    """The number of the name under which the member knows the group, -1 for none."""


def like_classes(
    rank_keys: Sequence[Hashable],
    group_keys: Sequence[Hashable],
    groups_of: Sequence[tuple[int, ...]],
    peers_of: Sequence[I64 | None],
    groups: Sequence[Company],
) -> tuple[I64, I64]:
    """The class of each rank and of each group, numbered in order of first use.

    `groups_of` gives the groups of each rank, one per role of its program; `peers_of` the places of the
    ranks it exchanges messages with, in a fixed order, -1 for one that was not recorded.
    """
    rank = _numbered(rank_keys)
    while True:
        group = _group_classes(groups, group_keys, rank)
        keys = [
            (int(rank[i]), tuple(int(group[g]) for g in mine), _classes_of(rank, peers_of[i]))
            for i, mine in enumerate(groups_of)
        ]
        finer = _numbered(keys)
        if finer.max(initial=-1) == rank.max(initial=-1):
            return rank, group
        rank = finer


def _numbered(keys: Sequence[Hashable]) -> I64:
    """A number for each distinct key, in order of first use."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.int64)


def _classes_of(rank: I64, peers: I64 | None) -> bytes:
    return b"" if peers is None else np.where(peers >= 0, rank[peers], -1).tobytes()


def _group_classes(groups: Sequence[Company], keys: Sequence[Hashable], rank: I64) -> I64:
    roles = 2 + max((int(g.role.max(initial=-1)) for g in groups), default=-1)
    found: list[Hashable] = []
    for g, key in zip(groups, keys, strict=True):
        members = np.where(g.rank >= 0, rank[g.rank], -1) * roles + g.role + 1
        found.append((key, np.sort(members).tobytes()))
    return _numbered(found)
