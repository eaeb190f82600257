"""Where a row runs: on the host or a device, on which lane and when, inside which row, in which step."""

from __future__ import annotations

from chakrakit.trace.placement.rows import (
    NO_LANE,
    has_edges,
    implied_order,
    is_communication,
    issue_order,
    issued,
    kernels,
    lane_number,
    lane_of,
    nested_ends,
    on_device,
    on_host,
    ordered_by_edges,
    outlives_parent,
    stored,
    stream_lane,
)
from chakrakit.trace.placement.steps import (
    StepRows,
    StepSpan,
    marked_steps,
    seen_whole,
    slowest,
    slowest_periods,
    step_rows,
    usual_period,
)

__all__ = [
    "NO_LANE",
    "StepRows",
    "StepSpan",
    "has_edges",
    "implied_order",
    "is_communication",
    "issue_order",
    "issued",
    "kernels",
    "lane_number",
    "lane_of",
    "marked_steps",
    "nested_ends",
    "on_device",
    "on_host",
    "ordered_by_edges",
    "outlives_parent",
    "seen_whole",
    "slowest",
    "slowest_periods",
    "step_rows",
    "stored",
    "stream_lane",
    "usual_period",
]
