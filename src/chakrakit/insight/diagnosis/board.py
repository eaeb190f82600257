"""Recorded collective calls of all ranks as one table; a meeting is the calls of one collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64

DONE = 2
"""State of a call that completed; 0 means issued, 1 begun, -1 unknown."""


_MOST_NUMBERS = 1 << 32
"""Call numbers that span more are renumbered: otherwise keys made of them would not fit into 64 bits."""


class CallSignature(NamedTuple):
    """What all calls of a meeting must agree in; sizes are 0 where ranks may bring different amounts."""

    kind: int
    dtype: int
    size: int
    out_size: int


@dataclass(frozen=True, eq=False)
class Board:
    """Calls of one rank after another, each rank's in the order it issued them; one array per fact.

    `sign` is an index into `signatures`. `seq` is a call's number in its group; `nth` tells calls with the
    same number apart, as coalesced ones have. `members[g]` are the ranks of group `g`, recorded or not;
    `recorded` are the ranks that were recorded; `last` is the highest `seq` of each (group, rank).
    """

    rank: I64
    group: I64
    seq: I64
    nth: I64
    sign: I64
    state: I64
    start: I64
    end: I64
    signatures: Sequence[CallSignature]
    kind_names: Mapping[int, str]
    group_names: Sequence[str]
    members: Sequence[I64]
    recorded: I64
    last: Mapping[tuple[int, int], int]

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def key(self) -> I64:
        """One number per call, equal for the calls of a meeting."""
        if not len(self):
            return np.zeros(0, np.int64)
        first, last, several = int(self.seq.min()), int(self.seq.max()), int(self.nth.max()) + 1
        if last - first < _MOST_NUMBERS:
            seq = self.seq - first
        else:
            seq = np.unique(self.seq, return_inverse=True)[1]
        key: I64 = (self.group * (int(seq.max()) + 1) + seq) * several + self.nth
        return key

    @cached_property
    def order(self) -> I64:
        """All calls sorted by meeting, then by rank."""
        return np.argsort(self.key, kind="stable")

    @cached_property
    def bounds(self) -> I64:
        """Where each meeting begins in `order`, followed by the length of `order`."""
        if not len(self):
            return np.zeros(1, np.int64)
        key = self.key[self.order]
        bounds: I64 = np.r_[0, np.flatnonzero(key[1:] != key[:-1]) + 1, len(self)]
        return bounds

    @property
    def meetings(self) -> int:
        """The number of meetings."""
        return len(self.bounds) - 1

    def rows(self, meeting: int) -> I64:
        """The calls of a meeting, in order of rank."""
        rows: I64 = self.order[self.bounds[meeting] : self.bounds[meeting + 1]]
        return rows

    def meeting_of(self, row: int) -> int:
        """The meeting that a call belongs to."""
        first = self.key[self.order[self.bounds[:-1]]]
        return int(np.searchsorted(first, self.key[row]))

    def per_meeting(self, how: np.ufunc, values: NDArray[np.generic]) -> I64:
        """Reduces values of calls to one value per meeting."""
        if not self.meetings:
            return np.zeros(0, np.int64)
        out: I64 = how.reduceat(values[self.order], self.bounds[:-1])
        return out

    def signature(self, row: int) -> CallSignature:
        """The signature of a call."""
        return self.signatures[int(self.sign[row])]

    def label(self, row: int) -> str:
        """A call in words: its kind, number and group."""
        kind = self.kind_names.get(self.signature(row).kind, "COLLECTIVE")
        return (
            f"{kind} {int(self.seq[row])} of group {self.group_names[int(self.group[row])] or '0'}"
        )
