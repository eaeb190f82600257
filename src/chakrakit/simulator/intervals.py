"""Sets of time as sorted, disjoint intervals."""

from __future__ import annotations

import numpy as np

from chakrakit.simulator.moves import I64

Spans = tuple[I64, I64]
"""Starts and ends."""


def union(start: I64, end: I64) -> Spans:
    """The time covered by at least one interval."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.r_[True, start[1:] > reach[:-1]]
    last = np.r_[np.flatnonzero(first)[1:] - 1, len(start) - 1]
    return start[first], reach[last]


def length(spans: Spans) -> int:
    """Total time."""
    return int((spans[1] - spans[0]).sum())


def joined(a: Spans, b: Spans) -> Spans:
    """Time in either."""
    return union(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]]))


def overlap(a: Spans, b: Spans) -> int:
    """Time in both."""
    return length(a) + length(b) - length(joined(a, b))
