"""The `schedule` of links and stores in a machine's file: a bandwidth that changes over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from chakrakit.errors import ConfigError
from chakrakit.machines.device import Quantity, parse
from chakrakit.machines.fabric import BandwidthChange, Schedule

MOST_CHANGES = 100_000
"""Changes over a run, each of them an event: a file cannot ask for hours of simulation."""
_PS_PER_S = 1e12
"""The resolution of the clock."""


class ChangeOverTime(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """From a time on, the bandwidth is `factor` times what it says."""

    at: Quantity
    factor: float


def read_schedule(texts: Sequence[ChangeOverTime], where: str) -> Schedule:
    """The changes, checked to be in order."""
    if len(texts) > MOST_CHANGES:
        raise ConfigError(f"{where}: {len(texts):,} changes; give at most {MOST_CHANGES:,}")
    changes: list[BandwidthChange] = []
    for i, text in enumerate(texts):
        at = parse(text.at, "time", f"{where}[{i}].at")
        if not 0 <= text.factor < math.inf:
            raise ConfigError(f"{where}[{i}].factor: {text.factor} is not 0 or more, and finite")
        if changes and round(at * _PS_PER_S) <= round(changes[-1].at * _PS_PER_S):
            raise ConfigError(
                f"{where}[{i}].at: changes come one after another; {at} s is not a picosecond later"
            )
        changes.append(BandwidthChange(at, text.factor))
    return tuple(changes)
