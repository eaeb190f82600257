"""Sweeps: the points of a study, run, kept and put in one table."""

from __future__ import annotations

from chakrakit.exploration.sweep import findings
from chakrakit.exploration.sweep.findings import PointRow
from chakrakit.exploration.sweep.measurement import mean, measure
from chakrakit.exploration.sweep.points import CapturedWorkload, captured_of, grid
from chakrakit.exploration.sweep.study import SweepStudy, read_study
from chakrakit.exploration.sweep.sweep_run import SweepResult, sweep

__all__ = [
    "CapturedWorkload",
    "PointRow",
    "SweepResult",
    "SweepStudy",
    "captured_of",
    "findings",
    "grid",
    "mean",
    "measure",
    "read_study",
    "sweep",
]
