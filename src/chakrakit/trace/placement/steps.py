"""Steps that a trace marks: when each began, ended, and how long after the one before it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import Trace
from chakrakit.trace.placement.rows import on_host


class StepSpan(NamedTuple):
    """One step of one rank, in the unit of the times it was made from."""

    number: int
    start: int
    end: int
    period: int
    """From the end of the work of the step before to the end of its own."""


def marked_steps(trace: Trace, start: I64, end: I64, works: Mask, number: I64) -> list[StepSpan]:
    """The steps of rows that do the work, `works`, where `number` says to which step a row belongs.

    The first period begins with the end of work launched before the recording, or, where there is
    none, with the step on the host.
    """
    orphan = np.asarray(trace.column("orphan", False), np.bool_)
    rows = np.flatnonzero(works & ~orphan & (number >= 0) & (end >= np.maximum(start, 0)))
    if not len(rows):
        return []
    numbers = np.unique(number[rows]).tolist()
    out: list[StepSpan] = []
    before = _before_first(trace, start, end, rows[number[rows] == numbers[0]], orphan, number)
    for value in numbers:
        mine = rows[number[rows] == value]
        first, last = int(start[mine].min()), int(end[mine].max())
        out.append(StepSpan(value, first, last, last - before))
        before = last
    return out


def _before_first(trace: Trace, start: I64, end: I64, rows: I64, orphan: Mask, number: I64) -> int:
    if orphan.any():
        return int(end[orphan].max())
    first = int(start[rows].min())
    marked = on_host(trace) & (number == number[rows[0]]) & (end >= np.maximum(start, 0))
    return min(first, int(start[marked].min())) if marked.any() else first


def slowest(ranks: Iterable[Mapping[int, int]]) -> int:
    """The usual step of several ranks: of each step the slowest rank's period."""
    return usual_period(slowest_periods(ranks))


def slowest_periods(ranks: Iterable[Mapping[int, int]]) -> list[int]:
    """Of each step, in order, the slowest rank's period."""
    periods: dict[int, int] = {}
    for rank in ranks:
        for number, period in rank.items():
            periods[number] = max(periods.get(number, 0), period)
    return [periods[number] for number in sorted(periods)]


def usual_period(periods: list[int]) -> int:
    """The usual step: the median of the seen ones."""
    return int(np.median(seen_whole(periods))) if periods else 0


def seen_whole(periods: list[int]) -> list[int]:
    """Without the first of several, as nobody saw what that one began with."""
    return periods[1:] or periods
