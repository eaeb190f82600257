"""In which step a row runs, where no node says it: found where the same work repeats."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64, Mask

_ALIKE = 0.95
"""The share of names that must come again one period later: steps differ a little in what they log."""
_TRIED = 32


def repeating_steps(name: I32, start: I64, works: Mask) -> I64:
    """The step of each row that works, -1 for others and where nothing repeats: names by order of start."""
    number = np.full(len(name), -1, np.int64)
    rows = np.flatnonzero(works)
    rows = rows[np.argsort(start[rows], kind="stable")]
    period = repeating_period(name[rows])
    if period:
        number[rows] = np.arange(len(rows)) // period
    return number


def filled(number: I64, start: I64, thread: I64, among: Mask) -> I64:
    """Rows without a step take the next one on their thread, and the last ones the one before."""
    number, rows = number.copy(), np.flatnonzero(among)
    for one in np.unique(thread[rows]).tolist():
        mine = rows[thread[rows] == one]
        mine = mine[np.argsort(start[mine], kind="stable")]
        known = np.flatnonzero(number[mine] >= 0)
        if len(known):
            after = np.minimum(np.searchsorted(known, np.arange(len(mine))), len(known) - 1)
            number[mine] = number[mine[known[after]]]
    return number


def repeating_period(codes: I32) -> int:
    """The length after which names repeat, 0 if they do not: tried are gaps between rare names."""
    values, counts = np.unique(codes, return_counts=True)
    again = counts >= 2
    rare = values[again][np.argsort(counts[again], kind="stable")][:_TRIED]
    tried: set[int] = set()
    for value in rare.tolist():
        gaps = np.diff(np.flatnonzero(codes == value))
        tried.add(int(np.median(gaps)))
    for period in sorted(tried):
        # Shorter than that, and a loop inside a step would pass for the step.
        if 4 <= period <= len(codes) // 2 and (codes[period:] == codes[:-period]).mean() >= _ALIKE:
            return period
    return 0
