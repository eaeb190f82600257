"""Steps that a trace marks: when each began, ended, and how long after the one before it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import Trace
from chakrakit.trace.placement.host_work import computes_on_host
from chakrakit.trace.placement.rows import is_communication, on_device, on_host, stored


class StepSpan(NamedTuple):
    """One step of one rank, in the unit of the times it was made from."""

    number: int
    start: int
    end: int
    period: int
    """From the end of the previous step's work to the end of this step's."""


@dataclass(frozen=True, eq=False)
class StepRows:
    """Which rows make up the steps of one rank; `spans` gives the steps under any times of these rows.

    The first period begins with the end of work launched before the recording, or, where there is
    none, with the step on the host.
    """

    numbers: list[int]
    rows: list[I64]
    """Of each step those that do its work."""
    orphans: I64
    first: I64
    """Rows of which the earliest begins the first step."""

    def spans(self, start: I64, end: I64) -> list[StepSpan]:
        """The steps under these times, in the order in which they end, whatever their numbers."""
        ends = [int(end[mine].max()) for mine in self.rows]
        order = sorted(range(len(ends)), key=ends.__getitem__)
        out: list[StepSpan] = []
        before = self._begin(order[0], start, end) if order else 0
        for i in order:
            out.append(
                StepSpan(self.numbers[i], int(start[self.rows[i]].min()), ends[i], ends[i] - before)
            )
            before = ends[i]
        return out

    def _begin(self, step: int, start: I64, end: I64) -> int:
        """When the first step began: with the last orphan that is over before it ends, or by itself."""
        rows = self.first if step == 0 else self.rows[step]
        orphans = end[self.orphans]
        orphans = orphans[orphans <= end[self.rows[step]].max()]
        return int(orphans.max()) if len(orphans) else int(start[rows].min())


def step_rows(trace: Trace, ran: Mask, works: Mask, number: I64) -> StepRows:
    """The steps of the rows in `works`; `number` is the step of each row, -1 for none."""
    orphan = np.asarray(trace.column("orphan", False), np.bool_)
    rows = np.flatnonzero(works & ~orphan & (number >= 0) & ran)
    numbers = np.unique(number[rows]).tolist()
    parts = [rows[number[rows] == value] for value in numbers]
    first = rows[:0]
    if numbers:
        marked = np.flatnonzero(on_host(trace) & (number == numbers[0]) & ran)
        first = np.concatenate([parts[0], marked])
    return StepRows(numbers, parts, np.flatnonzero(orphan), first)


def marked_steps(trace: Trace, start: I64, end: I64) -> list[StepSpan]:
    """The steps that the nodes of a rank mark, as it ran at these times; none where they mark none."""
    if not trace.has("step").any():
        return []
    ran = end >= np.maximum(start, 0)
    return step_rows(trace, ran, _works(trace), trace.step).spans(start, end)


def _works(trace: Trace) -> Mask:
    """Rows whose ends end steps: the device's, of stores, communication; without a device what computes."""
    moves = is_communication(trace) | stored(trace)
    device = on_device(trace) & ~moves
    return moves | (device if device.any() else computes_on_host(trace))


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
    """The usual step: the median of the periods that were recorded whole."""
    return int(np.median(seen_whole(periods))) if periods else 0


def seen_whole(periods: list[int]) -> list[int]:
    """The periods without the first, whose beginning was not recorded; a single one stays."""
    return periods[1:] or periods
