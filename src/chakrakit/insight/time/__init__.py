"""Where time goes: breakdown, operators, launches, roofline, steps."""

from __future__ import annotations

from chakrakit.insight.time.breakdown import (
    Breakdown,
    RankBusy,
    RankTime,
    TimeBreakdown,
    busy_of,
    join_breakdown,
    span_of,
)
from chakrakit.insight.time.launches import Launches, LaunchTable, launches_of
from chakrakit.insight.time.operators import (
    Operators,
    RankOperators,
    Spent,
    add_operators,
    listed_operators,
    operators_of,
)
from chakrakit.insight.time.roofline import Roofline, roofline_of
from chakrakit.insight.time.step_times import (
    Step,
    Steps,
    join_steps,
    rows_of_steps,
    steps,
    steps_of,
)

__all__ = [
    "Breakdown",
    "LaunchTable",
    "Launches",
    "Operators",
    "RankBusy",
    "RankOperators",
    "RankTime",
    "Roofline",
    "Spent",
    "Step",
    "Steps",
    "TimeBreakdown",
    "add_operators",
    "busy_of",
    "join_breakdown",
    "join_steps",
    "launches_of",
    "listed_operators",
    "operators_of",
    "roofline_of",
    "rows_of_steps",
    "span_of",
    "steps",
    "steps_of",
]
