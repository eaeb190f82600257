"""Profiles and network models from measurements."""

from __future__ import annotations

from chakrakit.machines.calibrate.calibrate import NetworkModel
from chakrakit.machines.calibrate.calibrated import (
    CalibrationReport,
    calibrate_collectives,
    calibrate_network,
    calibrate_profile,
)

__all__ = [
    "CalibrationReport",
    "NetworkModel",
    "calibrate_collectives",
    "calibrate_network",
    "calibrate_profile",
]
