"""Calibration: constants of engines on devices."""

from chakrakit.serving.calibration.constants import Constants, constants_of

__all__ = ["Constants", "constants_of"]
