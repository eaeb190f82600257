"""Classes of ranks that do the same at the same time, so that one of each is simulated.

Ranks fold when they run the same body with the same durations on the same kind of device, their groups are
of one class in every role, and so are their peers. Classes of ranks and of groups are refined together
until nothing splits. What the classes leave open, whether equal groups really take equal time on this
machine with these routes, is checked while simulating: the network carries the traffic of every rank, and
copies of a collective that end apart split their class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.engine.membership import Membership


@dataclass(frozen=True, eq=False)
class Classes:
    """`rank` and `group` give the class of each; `first` a rank of each class, the lowest."""

    rank: I64
    group: I64
    first: I64

    @property
    def count(self) -> int:
        """How many classes of ranks there are."""
        return len(self.first)

    @property
    def factor(self) -> float:
        """Ranks for each one simulated."""
        return len(self.rank) / max(1, self.count)

    def groups_of(self, number: int) -> I64:
        """The groups of a class, ascending."""
        return np.flatnonzero(self.group == number)


def apart(membership: Membership) -> Classes:
    """Every rank and every group its own class."""
    n = len(membership.ranks)
    return Classes(np.arange(n), np.arange(len(membership.groups)), np.arange(n))


def refine(
    membership: Membership, rank_keys: Sequence[Hashable], group_keys: Sequence[Hashable]
) -> Classes:
    """The coarsest classes in which equal members have equal keys, groups and peers."""
    bodies = [membership.body(i) for i in range(len(membership.ranks))]
    rank = _numbered(list(zip(bodies, rank_keys, strict=True)))
    peers = _peer_indices(membership)
    while True:
        group = _group_classes(membership, rank, group_keys)
        keys = [
            (
                int(rank[i]),
                tuple(int(group[g]) for g in membership.group_of[i]),
                _classes_of(rank, peers[i]),
            )
            for i in range(len(rank))
        ]
        finer = _numbered(keys)
        if finer.max(initial=-1) == rank.max(initial=-1):
            break
        rank = finer
    _, first = np.unique(rank, return_index=True)
    return Classes(rank, group, first)


def _numbered(keys: Sequence[Hashable]) -> I64:
    """A number for each distinct key, in order of first use."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(k, len(numbers)) for k in keys], np.int64)


def _peer_indices(membership: Membership) -> list[I64 | None]:
    """Indices of each rank's peers, -1 for one that nobody recorded; None for a rank without peers."""
    out: list[I64 | None] = []
    for i in range(len(membership.ranks)):
        found = [membership.index.get(p, -1) for p in membership.peers(i).tolist()]
        out.append(np.array(found, np.int64) if found else None)
    return out


def _classes_of(rank: I64, peers: I64 | None) -> bytes:
    """The classes of a rank's peers, in order."""
    return b"" if peers is None else np.where(peers >= 0, rank[peers], -1).tobytes()


def _group_classes(membership: Membership, rank: I64, keys: Sequence[Hashable]) -> I64:
    """Groups are alike when they have as many members of each class in each role."""
    roles = len(membership.role_names) + 1
    found: list[Hashable] = []
    for g, key in zip(membership.groups, keys, strict=True):
        members = np.where(g.present >= 0, rank[g.present], -1) * roles + g.role + 1
        found.append((key, np.sort(members).tobytes()))
    return _numbered(found)
