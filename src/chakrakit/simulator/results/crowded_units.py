"""Units of devices that were given more than they can do at a time.

A node holds a place on the unit that does most of it. Its other parts, and its side work, are timed on their
units and hold none there, so that nodes of those units run beside them as if they were alone.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.device import split_units
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Outcome
from chakrakit.simulator.results.energy import class_device
from chakrakit.trace.model import Trace


def unit_notes(outcome: Outcome, machine: Machine) -> list[str]:
    """Names the units on which more ran at a time than their `width`, each at its own rate."""
    crowded: dict[str, int] = {}
    for c in range(outcome.classes.count):
        trace, rows = outcome.program(c).trace, outcome.rows(c)
        units = class_device(outcome, machine, c).units
        for name, users in _users(trace).items():
            most = _most_at_once(outcome.start[rows][users], outcome.end[rows][users])
            if name in units and most > units[name].width:
                crowded[name] = max(crowded.get(name, 0), most)
    return [
        f"warning: up to {most} nodes used unit {name} at a time, more than its width, each at full rate: "
        "a split node holds the unit of its largest part alone, and side work holds none"
        for name, most in crowded.items()
    ]


def _users(trace: Trace) -> dict[str, I64]:
    """The rows that use each unit in any way; none where no row is split or has side work."""
    if "unit" not in trace.column_names:
        return {}
    codes, texts = trace.texts("unit")
    side_codes, side_texts = trace.texts("side_unit")
    if (side_codes < 0).all() and not any("=" in text for text in texts):
        return {}
    users = defaultdict(list)
    for row in np.flatnonzero(codes >= 0).tolist():
        names = {*split_units(texts[codes[row]])}
        names |= {side_texts[side_codes[row]]} if side_codes[row] >= 0 else set()
        for name in names:
            users[name].append(row)
    return {name: np.array(rows, np.int64) for name, rows in users.items()}


def _most_at_once(start: I64, end: I64) -> int:
    """How many of these times overlap at most; one that ends as another begins does not."""
    times = np.concatenate([end, start])
    change = np.repeat([-1, 1], [len(end), len(start)])
    return int(np.cumsum(change[np.argsort(times, kind="stable")]).max(initial=0))
