"""Sets of time as sorted, disjoint intervals; exact in whole ticks, without loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64


@dataclass(frozen=True, eq=False)
class Intervals:
    """Disjoint half-open intervals [start, end), ascending, none empty and none touching."""

    start: I64
    end: I64

    @classmethod
    def of(cls, start: I64, end: I64) -> Intervals:
        """The union of any intervals."""
        full = end > start
        if not full.all():
            start, end = start[full], end[full]
        if not len(start):
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        apart = not (start[1:] < end[:-1]).any()
        reach = end if apart else np.maximum.accumulate(end)
        first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]])
        last = np.r_[first[1:], len(start)] - 1
        return cls(start[first], reach[last])

    @classmethod
    def one(cls, start: int, end: int) -> Intervals:
        """One interval, or none."""
        return cls.of(np.array([start], np.int64), np.array([end], np.int64))

    @property
    def total(self) -> int:
        """How long all of them last together."""
        return int((self.end - self.start).sum())

    @property
    def low(self) -> int:
        """Where the first begins; 0 without any."""
        return int(self.start[0]) if len(self.start) else 0

    @property
    def high(self) -> int:
        """Where the last ends; 0 without any."""
        return int(self.end[-1]) if len(self.end) else 0

    def __len__(self) -> int:
        return len(self.start)

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.of(
            np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end])
        )

    def __sub__(self, other: Intervals) -> Intervals:
        return self & other.gaps(self.low, self.high)

    def __and__(self, other: Intervals) -> Intervals:
        """Where both are: sweep over all borders and keep the stretches with two open."""
        if not len(self) or not len(other):
            return Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
        at = np.concatenate([self.start, other.start, self.end, other.end])
        opens = len(self) + len(other)
        step = np.ones(len(at), np.int64)
        step[opens:] = -1
        order = np.argsort(at, kind="stable")
        depth = np.cumsum(step[order])
        both = np.flatnonzero(depth[:-1] == 2)
        return Intervals.of(at[order][both], at[order][both + 1])

    def gaps(self, start: int, end: int) -> Intervals:
        """What of [start, end) is not covered."""
        return Intervals.of(
            np.maximum(np.r_[start, self.end], start), np.minimum(np.r_[self.start, end], end)
        )

    def cut(self, start: int, end: int) -> Intervals:
        """The part inside [start, end)."""
        return Intervals.of(np.maximum(self.start, start), np.minimum(self.end, end))

    def share_of(self, start: I64, end: I64) -> I64:
        """How much of each [start, end) is covered."""
        return self._before(end) - self._before(start)

    @cached_property
    def _sums(self) -> I64:
        """Covered time before each interval, and last the whole covered time."""
        return np.concatenate([[0], np.cumsum(self.end - self.start)])

    def _before(self, when: I64) -> I64:
        """Covered time before each moment."""
        if not len(self):
            return np.zeros(len(when), np.int64)
        at = np.searchsorted(self.start, when, side="right")
        inside = (
            np.minimum(when, self.end[np.maximum(at, 1) - 1]) - self.start[np.maximum(at, 1) - 1]
        )
        return np.where(at > 0, self._sums[np.maximum(at, 1) - 1] + inside, 0)
