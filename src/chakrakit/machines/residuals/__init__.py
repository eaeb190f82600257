"""How far predicted times may be off, learned from rows that were not fitted."""

from __future__ import annotations

from chakrakit.machines.residuals.differences import difference
from chakrakit.machines.residuals.intervals import (
    BETWEEN_NODES,
    HOST_GROUP,
    LEAST_ROWS,
    Contribution,
    ErrorSpread,
    ResidualTable,
    TimeInterval,
    at_least,
    beside_host,
    collective_group,
    groups_of,
    interval_in,
    interval_of,
    kernel_group,
    residual_table,
    served_intervals,
    step_group,
)

__all__ = [
    "BETWEEN_NODES",
    "HOST_GROUP",
    "LEAST_ROWS",
    "Contribution",
    "ErrorSpread",
    "ResidualTable",
    "TimeInterval",
    "at_least",
    "beside_host",
    "collective_group",
    "difference",
    "groups_of",
    "interval_in",
    "interval_of",
    "kernel_group",
    "residual_table",
    "served_intervals",
    "step_group",
]
