"""What a power limit does to a stage: the clock it leaves, and the time its energy needs at least."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.device import (
    COMPUTED,
    PICO,
    Activity,
    Device,
    Draw,
    WorkModel,
    activity_of,
    held_back,
)
from chakrakit.trace.model import Trace


class StagePower:
    """The rows of a plan, `kind_of` each one of the rows of `trace`, on one device."""

    def __init__(self, trace: Trace, work: WorkModel, device: Device, kind_of: I64) -> None:
        assert device.dynamic is not None
        costs = work.costs(trace, device)
        self._device, self._constants, self._kind_of = device, device.dynamic, kind_of
        seconds = costs.ps.astype(np.float64) * PICO
        self._activity = activity_of(trace, device, device.dynamic, seconds, costs.profiled)
        computed = np.isin(costs.source, COMPUTED)
        self._limited = computed & (self._activity.seconds > 0)

    def clock(self, counts: Iterable[tuple[slice, int]], step_ps: int) -> tuple[Draw, int]:
        """For a step of this length at the highest clock, and the time its energy needs at it."""
        rows, times = _spread(counts)
        work = self._times(self._kind_of[rows], times)
        waits = max(0.0, step_ps * PICO - float(work.seconds.sum()))
        idle, limit = self._device.idle_power, self._device.power
        draw = held_back(self._constants, work, idle, limit, waits)
        spare = max(limit * self._constants.limit_share - idle - draw.clock_watts, PICO)
        return draw, int(float(draw.joules(work).sum()) / spare / PICO)

    def longer(self, rows: I64, row_ps: I64, draw: Draw) -> I64:
        """What these rows take at a clock, given what they take at the highest."""
        kinds = self._kind_of[rows]
        stretched = row_ps * draw.stretch(self._times(kinds, np.ones(len(kinds))))
        return np.where(self._limited[kinds], np.rint(stretched).astype(np.int64), row_ps)

    def _times(self, kinds: I64, times: F64) -> Activity:
        """Rows of these kinds, each as often as it runs."""
        a, often = self._activity, times * self._limited[kinds]
        return Activity(
            seconds=a.seconds[kinds] * often,
            chip_joules=a.chip_joules[kinds] * often,
            memory_joules=a.memory_joules[kinds] * often,
            follows_clock=a.follows_clock[kinds],
            timed_one_by_one=a.timed_one_by_one[kinds],
        )


def _spread(counts: Iterable[tuple[slice, int]]) -> tuple[I64, F64]:
    """Rows, and how often each runs."""
    parts = [(np.arange(block.start, block.stop), times) for block, times in counts]
    rows = np.concatenate([r for r, _ in parts]).astype(np.int64)
    return rows, np.concatenate([np.full(len(r), float(t)) for r, t in parts])
