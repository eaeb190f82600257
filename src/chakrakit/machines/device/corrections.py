"""Corrections of a carried profile: what tables of a device say beyond its peaks, by the size of the work.

A correction is a grid over the logarithms of a shape. At its knots it holds the logarithm of measured over
carried time, fitted on a table of the device (benchmarks/fit_carried.py); between knots it is linear, and
beyond the grid it stays what it is at the edge.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError


class Correction(msgspec.Struct, frozen=True):
    """A grid of corrections for operations of one kind and length of shape."""

    knots: list[list[float]]
    """For each number of the shape, the logarithms to base 2 at which the grid has values."""
    values: list[float]
    """Logarithms of the correction, the last number of the shape running fastest."""
    error: float = 0.0
    """The median error that is left, on rows of the table that were not fitted."""

    def factor(self, shape: tuple[int, ...]) -> float:
        """What a carried time is multiplied by."""
        point = np.log2(np.maximum(1, np.array([shape], np.float64)))
        return float(np.exp(weights(point, self.knots)[0] @ np.array(self.values)))


def weights(points: F64, knots: list[list[float]]) -> F64:
    """The weight of every knot for every point, in the order of `Correction.values`."""
    whole = np.ones((len(points), 1))
    for axis, places in zip(points.T, knots, strict=True):
        one = _hats(axis, np.array(places))
        whole = (whole[:, :, None] * one[:, None, :]).reshape(len(points), -1)
    return whole


def _hats(values: F64, knots: F64) -> F64:
    """The two knots around each value share it by their distance."""
    inside = np.clip(values, knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, inside, "right") - 1, 0, len(knots) - 2)
    part = (inside - knots[left]) / (knots[left + 1] - knots[left])
    out = np.zeros((len(values), len(knots)))
    rows = np.arange(len(values))
    out[rows, left], out[rows, left + 1] = 1 - part, part
    return out


def check_corrections(corrections: dict[str, Correction], where: str) -> None:
    """Raises an error for a grid whose knots do not ascend or whose values are not one for each knot."""
    for name, correction in corrections.items():
        at = f"{where}: corrections.{name}"
        if not correction.knots or any(len(k) < 2 or sorted(set(k)) != k for k in correction.knots):
            raise ConfigError(f"{at}.knots: give at least two ascending numbers for each size")
        if len(correction.values) != math.prod(len(k) for k in correction.knots):
            raise ConfigError(f"{at}.values: give one number for each place of the grid")
        if not all(math.isfinite(v) and abs(v) < _MOST for v in correction.values):
            raise ConfigError(f"{at}.values: give logarithms between {-_MOST} and {_MOST}")


_MOST = 5.0
"""A correction by more than a factor of 150 is a mistake in units."""
