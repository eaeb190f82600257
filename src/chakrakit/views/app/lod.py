"""Level of detail: lines with any number of slices, reduced to what a row of pixels can show.

The busy time in a pixel is a difference of two running sums, so that a window costs time in proportion to its
pixels, not to its slices. A slice as long as a pixel covers a border between pixels, so that long slices are
found by looking only at the borders.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I8, I32, I64


@dataclass(frozen=True, eq=False)
class TimeWindow:
    """A stretch of time to show: [begin, end) in `buckets` parts of equal length."""

    begin: int
    end: int
    buckets: int

    @cached_property
    def borders(self) -> I64:
        """Where parts begin and end, in whole ns; parts are empty where there are more of them than ns."""
        whole, rest = divmod(self.end - self.begin, self.buckets)
        part = np.arange(self.buckets + 1, dtype=np.int64)
        borders: I64 = self.begin + part * whole + part * rest // self.buckets
        return borders

    @property
    def step(self) -> float:
        """The length of a part."""
        return (self.end - self.begin) / self.buckets


@dataclass(frozen=True, eq=False)
class LineDetail:
    """What is drawn of a line in a window: `at` are the places of slices that are drawn one by one.

    The other slices are summed by part of the window: `bucket` is the part, `busy` the ns that they fill in
    it, `code` the code that fills most of it, and `count` how many slices begin in it.
    """

    at: I64
    bucket: I64
    busy: I64
    code: I64
    count: I64


def _nothing() -> I64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class SliceLine:
    """Slices in order of time that do not overlap; `code` is the class of each (0, 1, …)."""

    start: I64
    end: I64
    row: I32
    code: I8

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def codes(self) -> list[int]:
        """The codes that occur, ascending."""
        return np.flatnonzero(np.bincount(self.code, minlength=1)).tolist() if len(self) else []

    @cached_property
    def _sums(self) -> dict[int, I64]:
        """For each code, the running sum of its slices' lengths."""
        length = self.end - self.start
        parts = {
            c: length if len(self.codes) == 1 else np.where(self.code == c, length, 0)
            for c in self.codes
        }
        return {c: np.concatenate([[0], np.cumsum(part)]) for c, part in parts.items()}

    def busy_before(self, when: I64) -> dict[int, I64]:
        """For each code, how long its slices were busy before each of these times."""
        count = np.searchsorted(self.start, when, side="right")
        last = np.maximum(count, 1) - 1
        over = np.where(count > 0, np.maximum(self.end[last] - when, 0), 0)
        code = self.code[last]
        return {c: sums[count] - np.where(code == c, over, 0) for c, sums in self._sums.items()}

    def part(self, at: I64) -> SliceLine:
        """A line of the slices at these places."""
        return SliceLine(self.start[at], self.end[at], self.row[at], self.code[at])

    def window(self, window: TimeWindow) -> LineDetail:
        """All slices if there are at most as many as parts; else the long ones, and sums of the others."""
        first = int(np.searchsorted(self.end, window.begin))
        last = int(np.searchsorted(self.start, window.end))
        if last - first <= window.buckets:
            at = np.arange(first, max(last, first), dtype=np.int64)
            return LineDetail(at, _nothing(), _nothing(), _nothing(), _nothing())
        long = self._long(window)
        return LineDetail(long, *self._summed(window, long))

    def _long(self, window: TimeWindow) -> I64:
        """Slices at least as long as a part; each is the last one that begins before some border."""
        at = np.searchsorted(self.start, window.borders) - 1
        at = np.unique(at[at >= 0])
        covers = self.end[at] > window.begin
        return at[covers & (self.end[at] - self.start[at] >= window.step)]

    def _summed(self, window: TimeWindow, long: I64) -> tuple[I64, I64, I64, I64]:
        """Sums over all but the long slices: part, busy time, main code and count of busy parts."""
        borders, rest = window.borders, self.part(long)
        drawn = rest.busy_before(borders) if len(rest) else {}
        busy = np.stack(
            [
                np.diff(sums) - (np.diff(drawn[c]) if c in drawn else 0)
                for c, sums in self.busy_before(borders).items()
            ]
        )
        count = np.diff(np.searchsorted(self.start, borders))
        count -= np.diff(np.searchsorted(rest.start, borders))
        total = busy.sum(axis=0)
        full = np.flatnonzero((total > 0) | (count > 0))
        most = np.array(self.codes)[np.argmax(busy[:, full], axis=0)] if len(full) else full
        return full, total[full], most, count[full]
