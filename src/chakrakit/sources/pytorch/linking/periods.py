"""How long a step takes, measured and as scheduled."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.trace.timing import Intervals, schedule


def step_periods(linked: Rank, start: I64, end: I64) -> list[dict[str, Any]]:
    """Each step's range on the host and its period on the device, both measured and scheduled.

    A period lasts from the end of the device's work for the step before to the end of its own; a
    kernel belongs to the step that launched it. The first period begins with the last orphan, or
    where there is none with the step itself. Without device work the host's ranges count.
    """
    out = []
    line = linked.line
    measured = _device_ends(linked, line.start, line.end)
    planned = _device_ends(linked, start, end)
    for i, step in enumerate(linked.attribution.steps):
        facts = {"step": step.number, "measured_ns": step.end - step.start}
        if measured:
            facts["period_ns"] = measured[i + 1] - measured[i]
            facts["scheduled_period_ns"] = planned[i + 1] - planned[i]
        else:
            rows = linked.attribution.step == step.number
            facts["scheduled_ns"] = int(end[rows].max() - start[rows].min())
        out.append(facts)
    return out


def steady_period(linked: Rank) -> int:
    """The last step's period as scheduled, 0 where there is none: the first begins with an idle device."""
    timed = schedule(len(linked.line), linked.edges, linked.own)
    steps = step_periods(linked, timed.start, timed.end)
    if not steps:
        return 0
    return int(steps[-1].get("scheduled_period_ns") or steps[-1].get("scheduled_ns", 0))


def device_time(linked: Rank) -> int:
    """How long the device works for the last step."""
    steps, rows, line = linked.attribution.steps, linked.device.rows, linked.line
    if not steps:
        return 0
    mine = rows[linked.attribution.step[rows] == steps[-1].number]
    return int(Intervals.of(line.start[mine], line.end[mine]).total)


def _device_ends(linked: Rank, start: I64, end: I64) -> list[int]:
    """When the device was done with what came before, and then with each step."""
    steps = linked.attribution.steps
    rows, line = linked.device.rows, linked.line
    if not len(rows) or not steps:
        return []
    orphans = linked.device.orphans
    first = np.flatnonzero(linked.attribution.step == steps[0].number)
    hosted = first[line.is_host[first]]
    begin = hosted if len(hosted) else first
    ends = [int(end[orphans].max()) if len(orphans) else int(start[begin].min())]
    for step in steps:
        mine = rows[linked.attribution.step[rows] == step.number]
        ends.append(int(end[mine].max()) if len(mine) else ends[-1])
    return ends
