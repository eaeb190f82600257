"""How far predicted times may be off, learned from rows that were not fitted."""

from __future__ import annotations

from chakrakit.machines.residuals.intervals import (
    BETWEEN_NODES,
    LEAST_ROWS,
    Contribution,
    Interval,
    ResidualTable,
    Spread,
    collective_group,
    difference,
    groups_of,
    interval_of,
    kernel_group,
    residual_table,
    served_interval,
    step_group,
)

__all__ = [
    "BETWEEN_NODES",
    "LEAST_ROWS",
    "Contribution",
    "Interval",
    "ResidualTable",
    "Spread",
    "collective_group",
    "difference",
    "groups_of",
    "interval_of",
    "kernel_group",
    "residual_table",
    "served_interval",
    "step_group",
]
