"""Requests side by side: the fewest lanes on which no two of them overlap."""

from __future__ import annotations

import heapq

import numpy as np

from chakrakit.arrays import I64


def lanes(start: I64, end: I64) -> I64:
    """A lane for each interval; intervals are in order of their start."""
    found = np.zeros(len(start), np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for i, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, lane))
        found[i] = lane
    return found
