"""Alike: ranks and groups of which one stands for all that do the same at the same times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.communication import Company


@dataclass(frozen=True, eq=False)
class Alike:
    """Classes of ranks and of groups, each with its lowest as the one that is looked at.

    Like ranks exchange their messages with `peers` in the same order, and like groups have as many members
    of each class of ranks in each role.
    """

    ranks: Sequence[int]
    """All ranks, ascending; everything below counts by their places."""
    rank_class: I64
    peers: Sequence[I64]
    """For each rank its peers, in the order of its program."""
    group_class: I64
    """By the code of a group."""
    companies: Sequence[Company]
    """By the code of a group: who uses it, in which role."""
    part: I64
    """By entry of the calls that are looked at: the number of the rank's class and role together."""
    roles: int
    """How many roles there are."""

    @cached_property
    def place(self) -> dict[int, int]:
        """The place of each rank."""
        return {rank: i for i, rank in enumerate(self.ranks)}

    @cached_property
    def first_rank(self) -> I64:
        """By place: the place of the rank that stands for it."""
        _, first, which = np.unique(self.rank_class, return_index=True, return_inverse=True)
        return np.asarray(first[which], np.int64)

    @cached_property
    def first_group(self) -> I64:
        """By code: the code of the group that stands for it."""
        _, first, which = np.unique(self.group_class, return_index=True, return_inverse=True)
        return np.asarray(first[which], np.int64)

    @cached_property
    def _ranks_of(self) -> dict[int, I64]:
        return _members(self.first_rank)

    @cached_property
    def _groups_of(self) -> dict[int, I64]:
        return _members(self.first_group)

    def stands_for(self, rank: int) -> int:
        """The rank whose calls are those of `rank`."""
        return self.ranks[int(self.first_rank[self.place[rank]])]

    def ranks_like(self, rank: int) -> list[int]:
        """The ranks that a rank stands for, ascending."""
        return [self.ranks[i] for i in self._ranks_of[self.place[rank]].tolist()]

    def groups_like(self, code: int) -> list[int]:
        """The groups that a group stands for."""
        found: list[int] = self._groups_of[code].tolist()
        return found

    def moved(self, rank: int, ends: I64) -> I64:
        """Ends of a rank's messages as each rank like it has them: one row per rank."""
        table = self._ends_of(self.place[rank])
        order = np.argsort(table[0], kind="stable")
        known = table[0][order]
        at = np.minimum(np.searchsorted(known, ends), len(known) - 1)
        return np.where(known[at] == ends, table[:, order[at]], ends)

    def _ends_of(self, first: int) -> I64:
        """One row per rank like the first: itself and its peers."""
        if first not in self._tables:
            like = self._ranks_of[first].tolist()
            own = np.array([self.ranks[j] for j in like], np.int64)
            self._tables[first] = np.column_stack([own, np.stack([self.peers[j] for j in like])])
        return self._tables[first]

    @cached_property
    def _tables(self) -> dict[int, I64]:
        return {}

    def last_of(self, code: int, coming: I64) -> int:
        """The highest rank of a group among members whose class and role are among these parts."""
        ranks, roles = self.companies[code]
        parts = self.rank_class[ranks] * self.roles + roles
        # The last of these parts; several classes may come at the same time.
        found = np.flatnonzero((parts[:, None] == coming).any(1))
        return self.ranks[int(ranks[found].max())]

    def meeting(self, rank: int, group: int, part: int, parts: I64) -> tuple[int, I64, I64]:
        """The group like this one in which a rank has that part, its ranks, and the part of each.

        The parts of the members are given as places among `parts`.
        """
        place, role = self.place[rank], part % self.roles
        for code in self.groups_like(group):
            ranks, roles = self.companies[code]
            if ((ranks == place) & (roles == role)).any():
                break
        theirs = self.rank_class[ranks] * self.roles + roles
        order = np.argsort(parts)
        at = order[np.searchsorted(parts[order], theirs)]
        return code, np.array(self.ranks, np.int64)[ranks], at


def _members(first: I64) -> dict[int, I64]:
    """For each that stands for others the places of all, ascending."""
    order = np.argsort(first, kind="stable")
    heads = np.flatnonzero(np.r_[True, first[order][1:] != first[order][:-1]])
    return {int(first[p[0]]): p for p in np.split(order, heads[1:]) if len(p)}
