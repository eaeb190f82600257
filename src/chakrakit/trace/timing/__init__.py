"""When things run: the scheduler and sets of time intervals."""

from __future__ import annotations

from chakrakit.trace.timing.horizon import CLOCK_NS, HORIZON_DAYS, HORIZON_NS, HORIZON_PS, span_of
from chakrakit.trace.timing.intervals import Intervals
from chakrakit.trace.timing.scheduler import Reason, Schedule, held_back, plain_span_ns, schedule

__all__ = [
    "CLOCK_NS",
    "HORIZON_DAYS",
    "HORIZON_NS",
    "HORIZON_PS",
    "Intervals",
    "Reason",
    "Schedule",
    "held_back",
    "plain_span_ns",
    "schedule",
    "span_of",
]
