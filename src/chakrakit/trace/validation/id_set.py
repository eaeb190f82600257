"""A set of node ids that is small where ids are dense, which they nearly always are."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import U64, Mask

_Run = tuple[U64, U64]


class IdSet:
    """Ids as ranges of consecutive ones, in a few sorted runs.

    A run of a million ids without gaps takes 16 bytes; ids without order or neighbours take 16 bytes
    each. Runs of similar length are merged, so there are about log(n) of them, and adding n ids costs
    n log n in all.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def add(self, ids: U64) -> None:
        """Adds ids in any order; those that are there already do no harm."""
        if not len(ids):
            return
        if not (ids[1:] > ids[:-1]).all():
            ids = np.unique(ids)
        gaps = np.flatnonzero(ids[1:] - ids[:-1] != 1)
        self._runs.append((ids[np.r_[0, gaps + 1]], ids[np.r_[gaps, len(ids) - 1]]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]

    def contains(self, ids: U64) -> Mask:
        """For each id, whether it was added."""
        found = np.zeros(len(ids), np.bool_)
        for first, last in self._runs:
            place = np.searchsorted(first, ids, "right")
            found |= (place > 0) & (ids <= last[place - 1])
        return found


def _merged(a: _Run, b: _Run) -> _Run:
    first, last = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    apart = (first[1:] > last[:-1]) & (first[1:] - last[:-1] != 1)
    cuts = np.flatnonzero(apart)
    return first[np.r_[0, cuts + 1]], last[np.r_[cuts, len(last) - 1]]
