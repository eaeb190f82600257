"""What devices draw over time: the mean over each part of the run, which sums to their energy."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines.device import PICO, PowerLimited
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Outcome
from chakrakit.simulator.results.energy import (
    DeviceDraw,
    DeviceWork,
    class_device,
    class_work,
    drawn,
)

_MOST_POINTS = 400_000
"""Rows of the table over all classes: some 4 MB on disk."""
_PARTS = 1_000
"""Parts of a run: more than a screen tells apart without zooming in."""


def power_table(outcome: Outcome, machine: Machine, limit: PowerLimited) -> dict[str, Any] | None:
    """What the device of each class's first rank draws; None where no device has a power limit."""
    parts = min(_PARTS, _MOST_POINTS // max(outcome.classes.count, 1), outcome.makespan_ps // 1000)
    borders = np.linspace(0, outcome.makespan_ps, parts + 1) if parts else np.zeros(0)
    ranks, watts = [], []
    for c in range(outcome.classes.count if parts else 0):
        placed = class_device(outcome, machine, c)
        device = limit.clocks.capped(placed)
        if device.power:
            work = class_work(outcome, c)
            takes = drawn(work, outcome.makespan_ps, device, limit.draw(work.trace, placed))
            watts.append(_watts(work, takes, borders))
            ranks.append(outcome.membership.ranks[int(outcome.classes.first[c])])
    if not ranks:
        return None
    return {
        "rank": np.repeat(ranks, parts),
        "time_ns": np.tile((borders[:-1] // 1000).astype(np.int64), len(ranks)),
        "watts": np.concatenate(watts),
    }


def _watts(work: DeviceWork, takes: DeviceDraw, borders: F64) -> F64:
    """Mean watts between each two borders (picoseconds): the slope of the joules drawn until then."""
    works = work.seconds > 0
    start, end = work.start[works], work.end[works]
    rate = takes.extra[works] / (end - start)
    when = np.concatenate([start, end])
    order = np.argsort(when, kind="stable")
    slope = np.cumsum(np.concatenate([rate, -rate])[order])
    when = when[order]
    joules = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(when))]) if len(when) else when
    until = np.interp(borders, when, joules, left=0.0) if len(when) else borders * 0
    return _within(takes.base + np.diff(until) / (np.diff(borders) * PICO), takes.most)


def _within(watts: F64, most: float) -> F64:
    """Watts of equal parts with none above `most` and the same mean.

    The model says what each row's work takes and holds the limit over the whole run. A limiter holds it all
    the time and makes the work take longer, so what lies above is spread over the parts that have room.
    """
    above, room = np.maximum(watts - most, 0), np.maximum(most - watts, 0)
    spread = min(above.sum() / max(room.sum(), PICO), 1.0)
    within: F64 = watts - above + room * spread
    return within
