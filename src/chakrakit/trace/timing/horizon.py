"""The horizon: the longest that a recording or a simulation lasts; and the ends of a clock in nanoseconds.

64 bits of picoseconds hold 106 days. Half of that is the horizon, so that any two times within it can be
added. What lasts longer is a wrong unit or a damaged number, and an error where it enters. Only a campaign,
which keeps its months in nanoseconds, goes on to the ends of the clock.
"""

from __future__ import annotations

from chakrakit import core
from chakrakit.arrays import I64

HORIZON_PS: int = core.SIM_HORIZON_PS
"""The core's limit."""
HORIZON_NS = HORIZON_PS // 1000
"""The same in nanoseconds."""
HORIZON_DAYS = HORIZON_PS // (86_400 * 10**12)
"""The same in days, for messages."""

CLOCK_NS = 1 << 61
"""73 years either way: times since 1970 fit, and so do sums of any two."""


def span_of(start: I64, end: I64) -> int:
    """From the first start to the last end, exact whatever the numbers are; 0 if there are none."""
    if not len(start):
        return 0
    return max(int(start.max()), int(end.max())) - min(int(start.min()), int(end.min()))
