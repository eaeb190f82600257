"""Where a row runs: on the host or a device, inside which row, and what that means for its times."""

from __future__ import annotations

from chakrakit.trace.placement.calls import callers_in, nested_ends
from chakrakit.trace.placement.rows import is_communication, kernels, on_device, on_host
from chakrakit.trace.placement.steps import StepSpan, marked_steps, slowest, usual_period

__all__ = [
    "StepSpan",
    "callers_in",
    "is_communication",
    "kernels",
    "marked_steps",
    "nested_ends",
    "on_device",
    "on_host",
    "slowest",
    "usual_period",
]
