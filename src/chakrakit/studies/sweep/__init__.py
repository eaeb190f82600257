"""Sweeps: the points of a study, run, kept and put in one table."""

from __future__ import annotations

from chakrakit.studies.sweep import findings
from chakrakit.studies.sweep import findings as serving_findings
from chakrakit.studies.sweep.findings import PointRow
from chakrakit.studies.sweep.measurement import mean, measure
from chakrakit.studies.sweep.points import Captured, captured_of, grid
from chakrakit.studies.sweep.study import Study, read_study
from chakrakit.studies.sweep.sweep_run import SweepResult, sweep

__all__ = [
    "Captured",
    "PointRow",
    "Study",
    "SweepResult",
    "captured_of",
    "findings",
    "grid",
    "mean",
    "measure",
    "read_study",
    "serving_findings",
    "sweep",
]
