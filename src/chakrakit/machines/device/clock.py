"""The simulator's clock: picoseconds in 64 bits, up to one horizon. Times are checked where they are made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chakrakit import core
from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.trace.sets import PS_PER_NS

HORIZON_PS = core.SIM_HORIZON_PS
"""The longest a simulation may go on, and the longest of any time in it."""

PS_PER_S = 1e12
MOST_NS = HORIZON_PS // PS_PER_NS
MOST_SECONDS = HORIZON_PS // 10**12
HORIZON_DAYS = MOST_SECONDS // 86400


def picoseconds(seconds: float, what: str) -> int:
    """Seconds as ticks; `what` takes that long, for the error."""
    if not 0 <= seconds <= MOST_SECONDS:
        raise too_long(what, f"{seconds:g} s")
    return round(seconds * PS_PER_S)


def each_picoseconds(seconds: F64, what: Callable[[int], str]) -> I64:
    """The same for many; `what` names the i-th."""
    wrong = np.flatnonzero(~((seconds >= 0) & (seconds <= MOST_SECONDS)))
    if len(wrong):
        raise too_long(what(int(wrong[0])), f"{seconds[wrong[0]]:g} s")
    return np.rint(seconds * PS_PER_S).astype(np.int64)


def nanoseconds_to_ticks(nanos: I64, what: Callable[[int], str]) -> I64:
    """Nanoseconds, which may be below 0, as ticks."""
    wrong = np.flatnonzero((nanos > MOST_NS) | (nanos < -MOST_NS))
    if len(wrong):
        raise too_long(what(int(wrong[0])), f"{nanos[wrong[0]]:,} ns")
    return nanos * PS_PER_NS


def too_long(what: str, long: str) -> ConfigError:
    """What to raise about a time that the clock does not have."""
    return ConfigError(
        f"{what} is {long}; a simulation has {HORIZON_DAYS} days in all: check the unit"
    )
