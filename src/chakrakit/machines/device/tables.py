"""Tables: measured operations of one class, and times for others read off between them.

A prediction starts from the class's own roofline (the best rate and bandwidth in the table, and its
shortest time) and multiplies it by what neighbouring rows took over theirs: a plane through the nearest rows
in the logarithms of the shape, the closer ones counting more, its slopes held back where rows are few. It
never leaves the neighbours' mean by more than a factor, so that far from all rows the roofline decides, which
grows with the work as it should. The error estimate comes from leaving each row out in turn,
and grows with the distance to the nearest row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.operators import Operation

NEAR = 0.05
"""Squared distance, in octaves, below which rows count about the same."""
STIFFNESS = 0.03
"""How strongly slopes are held back, in the squared octaves over which neighbours are spread. Chosen from
0.03, 0.1, 0.3 and 1 by the errors of rows left out of the H200's table."""
MARGIN = 0.5
"""Logarithm by which the plane may leave its neighbours' mean: far from rows slopes say little."""
ERROR_PER_OCTAVE = 0.10
"""Share of the time that a prediction may be off for each doubling away from the nearest row. Assumed."""
REACH = 1.0
"""Octaves in any dimension from the nearest row within which a prediction counts as measured."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured operation. `us` is its time with nothing in the cache, `warm` with all it reads there."""

    shape: list[int]
    us: float
    flops: float = 0.0
    bytes: float = 0.0
    warm: float = 0.0
    """0 where it was not measured apart."""


class Prediction(NamedTuple):
    """A time, and by what share of it the truth may differ (one standard error, about)."""

    us: float
    error: float
    extrapolated: bool = False
    """Whether the operation lies outside of what was measured."""


@dataclass(frozen=True, eq=False)
class ClassModel:
    """One class's table, ready to be asked. Asking with a shape of other length uses FLOPs and bytes.

    `floor_us` is the shortest time anything takes on the device; the table's own shortest by default.
    """

    rows: tuple[Row, ...]
    floor_us: float = 0.0

    @cached_property
    def _sizes(self) -> int:
        """Numbers in every row's shape; 0 where rows differ, which a recording may bring about."""
        lengths = {len(r.shape) for r in self.rows}
        return lengths.pop() if len(lengths) == 1 else 0

    @cached_property
    def _shape(self) -> F64:
        return _log2([r.shape for r in self.rows]) if self._sizes else self._work

    @cached_property
    def _work(self) -> F64:
        return _log2([[r.flops, r.bytes] for r in self.rows])

    @cached_property
    def _us(self) -> F64:
        return np.array([r.us for r in self.rows])

    @cached_property
    def _warmth(self) -> F64:
        """What is left of each row's time, as a logarithm, when all it reads is in the cache."""
        shares = [min(1.0, (r.warm or r.us) / r.us) for r in self.rows]
        return np.asarray(np.log(np.array(shares)), np.float64)

    @cached_property
    def _best(self) -> tuple[float, float, float]:
        """FLOP/us, bytes/us and the shortest time."""
        flops = max(r.flops / r.us for r in self.rows)
        moved = max(r.bytes / r.us for r in self.rows)
        return flops or 1.0, moved or 1.0, self.floor_us or float(self._us.min())

    @property
    def best_rate(self) -> float:
        """The highest FLOP/us of the table; 1 where it counts none."""
        return self._best[0]

    def roofline_us(self, flops: float, moved: float) -> float:
        """The class's own bound."""
        rate, width, least = self._best
        return max(flops / rate, moved / width, least)

    @cached_property
    def _residual(self) -> F64:
        roof = [self.roofline_us(r.flops, r.bytes) for r in self.rows]
        return np.asarray(np.log(self._us / np.array(roof)), np.float64)

    @cached_property
    def leave_one_out(self) -> F64:
        """By how much each row's logarithm is missed when it is left out."""
        out = np.zeros(len(self.rows))
        everything = np.arange(len(self.rows))
        for i in everything.tolist():
            near = _neighbours(self._shape, self._shape[i], everything != i)
            out[i] = near.plane(self._residual) - self._residual[i]
        return out

    def predict(self, operation: Operation, resident: float = 0.0) -> Prediction:
        """The time of an operation of this class; `resident` is the share of its input in the cache."""
        by_shape = 0 < self._sizes == len(operation.shape)
        table = self._shape if by_shape else self._work
        asked = operation.shape if by_shape else (operation.flops, operation.bytes)
        point = np.log2(np.maximum(1, np.array(asked, np.float64)))
        near = _neighbours(table, point, np.ones(len(self.rows), np.bool_))
        apart = float(np.abs(table - point).max(1).min())
        spread = float(np.abs(self.leave_one_out[near.rows]).mean()) if len(self.rows) > 2 else 0.5
        change = near.plane(self._residual) + resident * near.mean(self._warmth)
        us = self.roofline_us(operation.flops, operation.bytes) * float(np.exp(change))
        error = spread + ERROR_PER_OCTAVE * max(0.0, apart - 0.5)
        return Prediction(us, error, apart > REACH or not by_shape)


def _log2(values: Any) -> F64:
    return np.asarray(np.log2(np.maximum(1, np.array(values, np.float64))), np.float64)


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """The nearest rows, how much each counts, and where they lie as seen from the point asked for."""

    rows: I64
    weight: F64
    place: F64

    def mean(self, values: F64) -> float:
        return float(self.weight @ values[self.rows]) if len(self.rows) else 0.0

    def plane(self, values: F64) -> float:
        """The value at the point of a plane through the neighbours'."""
        if not len(self.rows):
            return 0.0
        own = values[self.rows]
        columns = np.column_stack([np.ones(len(own)), self.place])
        weighted = columns.T * self.weight
        square = weighted @ columns + STIFFNESS * np.diag([0.0, *np.ones(self.place.shape[1])])
        found = float(np.linalg.solve(square, weighted @ own)[0])
        mean = float(self.weight @ own)
        return float(np.clip(found, mean - MARGIN, mean + MARGIN))


def _neighbours(table: F64, point: F64, allowed: Mask) -> _Neighbours:
    """As many as a plane needs twice over, and a few."""
    place = table - point
    distance = np.where(allowed, (place**2).sum(1), np.inf)
    count = min(4 + 2 * table.shape[1], int(allowed.sum()))
    nearest = np.argsort(distance, kind="stable")[:count]
    weight = 1 / (distance[nearest] + NEAR)
    return _Neighbours(nearest, weight / max(weight.sum(), 1e-300), place[nearest])
