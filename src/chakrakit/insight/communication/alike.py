"""Alike: ranks and groups of which one stands for all that do the same at the same times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.communication import Classes, Communication


@dataclass(frozen=True, eq=False)
class Alike:
    """Classes of ranks and of groups, each with its lowest as the one that is looked at.

    Like ranks exchange their messages with `peers` in the same order, and like groups have as many members
    of each class of ranks in each role.
    """

    communication: Communication
    classes: Classes
    part: I64
    """By call that is looked at: the number of the rank's class and role together."""

    def _place(self, rank: int) -> int:
        return self.communication.place[rank]

    def _class(self, rank: int) -> int:
        return int(self.classes.rank[self._place(rank)])

    def stands_for(self, rank: int) -> int:
        """The rank whose calls are those of `rank`."""
        return self.communication.ranks[int(self.classes.first[self._class(rank)])]

    def ranks_like(self, rank: int) -> list[int]:
        """The ranks that a rank stands for, ascending."""
        like = self.classes.ranks_of(self._class(rank))
        return [self.communication.ranks[i] for i in like.tolist()]

    def groups_like(self, code: int) -> list[int]:
        """The groups that a group stands for."""
        found: list[int] = self.classes.groups_of(int(self.classes.group[code])).tolist()
        return found

    def moved(self, rank: int, ends: I64) -> I64:
        """Ends of a rank's messages as each rank like it has them: one row per rank."""
        table = self._ends_of(self._class(rank))
        order = np.argsort(table[0], kind="stable")
        known = table[0][order]
        at = np.minimum(np.searchsorted(known, ends), len(known) - 1)
        return np.where(known[at] == ends, table[:, order[at]], ends)

    def _ends_of(self, c: int) -> I64:
        """One row per rank of a class: itself and its peers."""
        if c not in self._tables:
            like = self.classes.ranks_of(c).tolist()
            own = np.array([self.communication.ranks[j] for j in like], np.int64)
            peers = np.stack([self.communication.peers(j) for j in like])
            self._tables[c] = np.column_stack([own, peers])
        return self._tables[c]

    @cached_property
    def _tables(self) -> dict[int, I64]:
        return {}

    def _parts(self, code: int) -> tuple[I64, I64]:
        """The places of a group's callers, and the class and role of each."""
        ranks, roles = self.communication.groups[code].callers
        return ranks, self.classes.rank[ranks] * self.communication.roles + roles

    def last_of(self, code: int, coming: I64) -> int:
        """The highest rank of a group among members whose class and role are among these parts."""
        ranks, parts = self._parts(code)
        # The last of these parts; several classes may come at the same time.
        found = np.flatnonzero((parts[:, None] == coming).any(1))
        return self.communication.ranks[int(ranks[found].max())]

    def meeting(self, rank: int, group: int, part: int, parts: I64) -> tuple[int, I64, I64]:
        """The group like this one in which a rank has that part, its ranks, and the part of each.

        The parts of the members are given as places among `parts`.
        """
        place = self._place(rank)
        for code in self.groups_like(group):
            ranks, theirs = self._parts(code)
            if ((ranks == place) & (theirs == part)).any():
                break
        order = np.argsort(parts)
        at = order[np.searchsorted(parts[order], theirs)]
        return code, np.array(self.communication.ranks, np.int64)[ranks], at
