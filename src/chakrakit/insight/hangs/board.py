"""Recorded collective calls of all ranks side by side: one row per call, grouped by what should meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64

DONE = 2
"""State of a call that completed; 0 was issued, 1 has begun, -1 is not known."""


@dataclass(frozen=True, eq=False)
class Board:
    """Calls in any order, one array per fact, and who belongs to which group.

    `issue` is the place of a call in its rank's own order. `members[g]` are the ranks of group `g`,
    recorded or not; `recorded` are the ranks there is a recording of.
    """

    rank: I64
    issue: I64
    group: I64
    seq: I64
    kind: I64
    size: I64
    out_size: I64
    dtype: I64
    state: I64
    start: I64
    end: I64
    group_names: Sequence[str]
    kind_names: Mapping[int, str]
    members: Sequence[I64]
    recorded: I64

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def order(self) -> I64:
        """Rows sorted by what should meet, then by rank."""
        return np.lexsort((self.rank, self.nth, self.seq, self.group))

    @cached_property
    def nth(self) -> I64:
        """Several calls may share a number, as coalesced ones do: which of them each is."""
        order = np.lexsort((self.issue, self.seq, self.group, self.rank))
        rank, group, seq = self.rank[order], self.group[order], self.seq[order]
        new = np.r_[
            True, (rank[1:] != rank[:-1]) | (group[1:] != group[:-1]) | (seq[1:] != seq[:-1])
        ]
        place = np.arange(len(order))
        out = np.empty(len(order), np.int64)
        out[order] = place - np.maximum.accumulate(np.where(new, place, 0))
        return out

    @cached_property
    def bounds(self) -> I64:
        """Where each meeting begins in `order`; and the end."""
        if not len(self):
            return np.zeros(1, np.int64)
        keys = [a[self.order] for a in (self.group, self.seq, self.nth)]
        new = np.zeros(len(self) - 1, np.bool_)
        for key in keys:
            new |= key[1:] != key[:-1]
        return np.r_[0, np.flatnonzero(new) + 1, len(self)]

    @property
    def meetings(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    def rows(self, meeting: int) -> I64:
        """The calls that meet, in order of rank."""
        return self.order[self.bounds[meeting] : self.bounds[meeting + 1]]

    @cached_property
    def meeting(self) -> I64:
        """The meeting each row belongs to."""
        out = np.empty(len(self), np.int64)
        out[self.order] = np.repeat(np.arange(self.meetings), np.diff(self.bounds))
        return out

    def per_meeting(self, how: np.ufunc, values: NDArray[np.generic]) -> I64:
        """A reduction over the calls of each meeting."""
        if not self.meetings:
            return np.zeros(0, np.int64)
        out: I64 = how.reduceat(values[self.order], self.bounds[:-1])
        return out

    def label(self, row: int) -> str:
        """A call in words."""
        kind = self.kind_names.get(int(self.kind[row]), "collective")
        return (
            f"{kind} {int(self.seq[row])} of group {self.group_names[int(self.group[row])] or '0'}"
        )
