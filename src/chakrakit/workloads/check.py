"""Whether a workload can be: what is wrong, why, and what would fit."""

from __future__ import annotations

from chakrakit.workloads.description import Workload


def check(workload: Workload) -> None:
    """Raises a ConfigError for the first thing that cannot be."""
