"""Level of detail: a line of slices of any number, cut to what a row of pixels can show.

Sums of busy time up to each slice make a window cost as much as it has pixels, not slices: what lies
in a pixel is a difference of two sums. A slice as long as a pixel covers a border between pixels, so
the long ones are found by looking at the borders alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I8, I32, I64


@dataclass(frozen=True, eq=False)
class Window:
    """What to show: [begin, end) in `buckets` parts of equal length."""

    begin: int
    end: int
    buckets: int

    @cached_property
    def borders(self) -> I64:
        """Where parts begin and end, in whole ns; more parts than ns give empty ones."""
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
    """A line in a window: `at` are slices to draw one by one (places in the line), in order.

    All others are summed by part: `bucket` which part, `busy` the ns in it that they fill, `code`
    what fills most of it, `count` how many begin in it.
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
    """Slices in order of time that do not overlap; `code` is what each counts as (0, 1, …)."""

    start: I64
    end: I64
    row: I32
    code: I8

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def codes(self) -> list[int]:
        """The codes there are, ascending."""
        return np.flatnonzero(np.bincount(self.code, minlength=1)).tolist() if len(self) else []

    @cached_property
    def _sums(self) -> dict[int, I64]:
        """By code, the busy time of all slices before each place."""
        length = self.end - self.start
        parts = {
            c: length if len(self.codes) == 1 else np.where(self.code == c, length, 0)
            for c in self.codes
        }
        return {c: np.concatenate([[0], np.cumsum(part)]) for c, part in parts.items()}

    def busy_before(self, when: I64) -> dict[int, I64]:
        """By code, the busy time before each moment."""
        count = np.searchsorted(self.start, when, side="right")
        last = np.maximum(count, 1) - 1
        over = np.where(count > 0, np.maximum(self.end[last] - when, 0), 0)
        code = self.code[last]
        return {c: sums[count] - np.where(code == c, over, 0) for c, sums in self._sums.items()}

    def part(self, at: I64) -> SliceLine:
        """Some of the slices, in order."""
        return SliceLine(self.start[at], self.end[at], self.row[at], self.code[at])

    def window(self, window: Window) -> LineDetail:
        """Every slice if there are no more than parts; else the long ones, and sums of the others."""
        first = int(np.searchsorted(self.end, window.begin))
        last = int(np.searchsorted(self.start, window.end))
        if last - first <= window.buckets:
            at = np.arange(first, max(last, first), dtype=np.int64)
            return LineDetail(at, _nothing(), _nothing(), _nothing(), _nothing())
        long = self._long(window)
        return LineDetail(long, *self._summed(window, long))

    def _long(self, window: Window) -> I64:
        """Slices at least as long as a part: each is the last to begin before some border."""
        at = np.searchsorted(self.start, window.borders) - 1
        at = np.unique(at[at >= 0])
        covers = self.end[at] > window.begin
        return at[covers & (self.end[at] - self.start[at] >= window.step)]

    def _summed(self, window: Window, long: I64) -> tuple[I64, I64, I64, I64]:
        """What the short slices fill of each part."""
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
