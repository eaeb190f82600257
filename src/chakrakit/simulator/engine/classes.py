"""Classes of ranks that do the same at the same time, so that one of each is simulated.

Ranks fold when they run the same body with the same durations on the same kind of device, their groups are
of one class in every role, and so are their peers (`like_classes`). What the classes leave open, whether
equal groups really take equal time on this machine with these routes, is checked while simulating: the
network carries the traffic of every rank, and copies that end apart split their class (folding.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.engine.membership import Membership
from chakrakit.trace.communication import Company, like_classes


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

    def ranks_of(self, number: int) -> I64:
        """The ranks of a class, ascending."""
        return np.flatnonzero(self.rank == number)


def apart(membership: Membership) -> Classes:
    """Every rank and every group its own class."""
    n = len(membership.ranks)
    return Classes(np.arange(n), np.arange(len(membership.groups)), np.arange(n))


def refine(
    membership: Membership, rank_keys: Sequence[Hashable], group_keys: Sequence[Hashable]
) -> Classes:
    """The coarsest classes in which equal members have equal keys, groups and peers."""
    bodies = [membership.body(i) for i in range(len(membership.ranks))]
    rank, group = like_classes(
        list(zip(bodies, rank_keys, strict=True)),
        group_keys,
        membership.group_of,
        _peer_indices(membership),
        [Company(g.present, g.role) for g in membership.groups],
    )
    _, first = np.unique(rank, return_index=True)
    return Classes(rank, group, first)


def _peer_indices(membership: Membership) -> list[I64 | None]:
    """Indices of each rank's peers, -1 for one that nobody recorded; None for a rank without peers."""
    out: list[I64 | None] = []
    for i in range(len(membership.ranks)):
        found = [membership.index.get(p, -1) for p in membership.peers(i).tolist()]
        out.append(np.array(found, np.int64) if found else None)
    return out


class RowNames:
    """What simulated rows are called."""

    def __init__(self, membership: Membership, classes: Classes, offset: I64) -> None:
        self.membership, self.classes, self.offset = membership, classes, offset

    def _class(self, row: int) -> int:
        return int(np.searchsorted(self.offset, row, "right")) - 1

    def rank(self, row: int) -> int:
        """The rank a row is simulated for."""
        return self.membership.ranks[int(self.classes.first[self._class(row)])]

    def node(self, row: int) -> str:
        """`rank 3 at node 17 ('all_reduce')`."""
        c = self._class(row)
        trace = self.membership.programs[self.membership.body(int(self.classes.first[c]))].trace
        node = trace[row - int(self.offset[c])]
        return f"rank {self.rank(row)} at node {node.id} ({node.name!r})"
