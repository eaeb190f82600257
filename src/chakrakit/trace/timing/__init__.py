"""When things run: the scheduler and sets of time intervals."""

from __future__ import annotations

from chakrakit.trace.timing.intervals import Intervals
from chakrakit.trace.timing.own_times import held_back
from chakrakit.trace.timing.plain import plain_span_ns
from chakrakit.trace.timing.scheduler import Reason, Schedule, schedule

__all__ = ["Intervals", "Reason", "Schedule", "held_back", "plain_span_ns", "schedule"]
