"""Profiles: tables of measured operations by class, and the work model that predicts times from them.

A prediction starts from the class's own roofline: the best rate and bandwidth of its table, and its shortest
time. It multiplies that by a factor, how far the neighbouring rows are above their rooflines. The factor is
read off a plane through the nearest rows in the logarithms of the shape, in which closer rows count more
and whose slopes are held back where rows are few. It stays near the neighbours' mean, so that far from all
rows the roofline decides, which grows with the work as it should. The error estimate comes from leaving each
row out in turn, and grows with the distance to the nearest row.

A profile without tables of its own has a `base`: the times of that profile are carried over by the peaks of
the two devices, and multiplied by the corrections that tables of the device gave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.corrections import Correction, check_corrections
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.host_link import PAGEABLE_ERROR, PINNED_ERROR, host_copy_seconds
from chakrakit.machines.device.launchers import LaunchedOperation, Touch, operations_of
from chakrakit.machines.device.work import (
    MOST_SECONDS,
    Auto,
    Costs,
    CostSource,
    DataSheet,
    Measured,
    Roofline,
    WorkModel,
    as_measured,
    each_picoseconds,
)
from chakrakit.operators import (
    HOST_COPY,
    IEEE,
    PAGEABLE,
    PRODUCT_MARKS,
    TIMED_AS_THEY_ARE,
    Operation,
    figure_for,
)
from chakrakit.trace.files import replacing
from chakrakit.trace.model import Trace


class DeviceCache:
    """Follows which storages are still in the device's cache of `size` bytes, in the order of a trace.

    A storage is in the cache if, since it was last touched, no more bytes than the cache's size have been
    touched besides it. Tensors without a storage are never in the cache.
    """

    def __init__(self, size: float) -> None:
        self.size = size
        self._clock = 0.0
        self._touched: dict[int, float] = {}

    def resident(self, work: LaunchedOperation) -> float:
        """The share of the bytes that an operation reads from the cache; then counts it as run."""
        total = sum(t.bytes for t in work.reads)
        cached_bytes = sum(self._share(t) * t.bytes for t in work.reads)
        self._touch(work.reads)
        self._touch(work.writes)
        return cached_bytes / total if total else 0.0

    def _share(self, touch: Touch) -> float:
        """The share of a storage that is cached: falls from 1 to 0 with the bytes touched since."""
        if not self.size or touch.storage not in self._touched:
            return 0.0
        since = self._clock - self._touched[touch.storage]
        return min(1.0, max(0.0, 2.0 - 2.0 * (since + touch.bytes / 2) / self.size))

    def _touch(self, touches: Iterable[Touch]) -> None:
        for touch in touches:
            self._clock += touch.bytes
            self._touched[touch.storage] = self._clock


# --- tables of one class ------------------------------------------------------------------------


NEAR = 0.05
"""Squared distance in octaves below which rows count about the same. Assumed: 0.22 octaves, 17 % in size."""
STIFFNESS = 0.03
"""How strongly slopes are held back, in the squared octaves over which neighbours are spread. Chosen from
0.03, 0.1, 0.3 and 1 by the errors of rows left out of the H200's table."""
MARGIN = 0.5
"""Logarithm by which the plane may differ from its neighbours' mean, as slopes are unreliable far from all
rows: a factor of 1.65. Assumed."""
ERROR_PER_OCTAVE = 0.10
"""Share of the time that a prediction may be off for each doubling away from the nearest row. Assumed."""
REACH = 1.0
"""Octaves from the nearest row, in any dimension, beyond which a prediction counts as extrapolated: whatever
lies between rows at powers of two is within."""


class MeasuredRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured operation. `us` is its time with a cold cache, `warm` with all its inputs in the cache."""

    shape: list[int]
    us: float
    flops: float = 0.0
    bytes: float = 0.0
    warm: float = 0.0
    """0 where only the cold time was measured."""


class Prediction(NamedTuple):
    """A predicted time, and its relative error (about one standard error)."""

    us: float
    error: float
    extrapolated: bool = False
    """Whether the operation lies outside the measured sizes."""


@dataclass(frozen=True, eq=False)
class ClassModel:
    """The model of one class's table. Shapes of another length than its rows' are compared by work.

    Work means FLOPs and bytes.
    `floor_us` is the shortest time of any operation on the device; by default the table's shortest time.
    """

    rows: tuple[MeasuredRow, ...]
    floor_us: float = 0.0

    @cached_property
    def _sizes(self) -> int:
        """The length of the rows' shapes; 0 where they differ, as in tables made from a recording."""
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
        """The logarithm of each row's warm time over its cold time."""
        shares = [min(1.0, (r.warm or r.us) / r.us) for r in self.rows]
        return np.asarray(np.log(np.array(shares)), np.float64)

    @cached_property
    def _best(self) -> tuple[float, float, float]:
        """The best FLOP/us and bytes/us of the table, and the shortest time."""
        flops = max(r.flops / r.us for r in self.rows)
        moved = max(r.bytes / r.us for r in self.rows)
        return flops or 1.0, moved or 1.0, self.floor_us or float(self._us.min())

    @property
    def best_rate(self) -> float:
        """The highest FLOP/us of the table; 1 where its rows have no FLOPs."""
        return self._best[0]

    def roofline_us(self, flops: float, moved: float) -> float:
        """The time of this work at the table's best rate and bandwidth."""
        rate, width, least = self._best
        return max(flops / rate, moved / width, least)

    @cached_property
    def _residual(self) -> F64:
        roof = [self.roofline_us(r.flops, r.bytes) for r in self.rows]
        return np.asarray(np.log(self._us / np.array(roof)), np.float64)

    @property
    def leave_one_out(self) -> F64:
        """The error of each row's logarithm when it is predicted from the other rows."""
        return np.array([self._left_out_error(row) for row in range(len(self.rows))])

    def _left_out_error(self, row: int) -> float:
        """That of one row, found once: a prediction asks for its neighbours alone, of hundreds of rows."""
        if row not in self._left_out:
            others = np.arange(len(self.rows)) != row
            near = _neighbours(self._shape, self._shape[row], others)
            self._left_out[row] = near.plane(self._residual) - float(self._residual[row])
        return self._left_out[row]

    @cached_property
    def _left_out(self) -> dict[int, float]:
        return {}

    def _spread(self, rows: I64) -> float:
        """How far these rows are from what the others say of them; 0.5 (assumed) where there are few."""
        if len(self.rows) <= 2:
            return 0.5
        return float(np.mean([abs(self._left_out_error(row)) for row in rows.tolist()]))

    def predict(self, operation: Operation, resident: float = 0.0) -> Prediction:
        """The time of an operation of this class; `resident` is the share of its inputs in the cache."""
        by_shape = 0 < self._sizes == len(operation.shape)
        table = self._shape if by_shape else self._work
        size = operation.shape if by_shape else (operation.flops, operation.bytes)
        point = _log2(size)
        near = _neighbours(table, point, np.ones(len(self.rows), np.bool_))
        apart = float(np.abs(table - point).max(1).min())
        change = near.plane(self._residual) + resident * near.mean(self._warmth)
        us = self.roofline_us(operation.flops, operation.bytes) * float(np.exp(change))
        error = self._spread(near.rows) + ERROR_PER_OCTAVE * max(0.0, apart - 0.5)
        return Prediction(us, error, apart > REACH or not by_shape)


_SAME = 9
"""Decimals of a logarithm that count: sizes equally far from a point, or just within reach of it, stay so
whichever way a library rounds the last digit."""


def _log2(values: Any) -> F64:
    logarithms = np.log2(np.maximum(1, np.array(values, np.float64)))
    return np.asarray(np.round(logarithms, _SAME), np.float64)


@dataclass(frozen=True, eq=False)
class _Neighbours:
    """The nearest rows of a point, the weight of each, and their places relative to the point."""

    rows: I64
    weight: F64
    place: F64

    def mean(self, values: F64) -> float:
        return float(self.weight @ values[self.rows]) if len(self.rows) else 0.0

    def plane(self, values: F64) -> float:
        """The value at the point of a plane fitted to the neighbours' values."""
        if not len(self.rows):
            return 0.0
        neighbour_values = values[self.rows]
        count, sizes = self.place.shape
        columns = np.ones((count, 1 + sizes))
        columns[:, 1:] = self.place
        weighted = columns.T * self.weight
        square = weighted @ columns
        slopes = np.arange(1, 1 + sizes)
        square[slopes, slopes] += STIFFNESS
        height = float(np.linalg.solve(square, weighted @ neighbour_values)[0])
        mean = float(self.weight @ neighbour_values)
        return min(max(height, mean - MARGIN), mean + MARGIN)


def _neighbours(table: F64, point: F64, allowed: Mask) -> _Neighbours:
    """The nearest allowed rows: about twice as many as a plane needs."""
    place = table - point
    distance = np.where(allowed, np.round((place**2).sum(1), _SAME), np.inf)
    count = min(4 + 2 * table.shape[1], int(allowed.sum()))
    nearest = np.argsort(distance, kind="stable")[:count]
    weight = 1 / (distance[nearest] + NEAR)
    return _Neighbours(nearest, weight / max(weight.sum(), 1e-300), place[nearest])


class WrittenBack(msgspec.Struct, frozen=True):
    """Lines that were written to a cache before each cold timing, and that reading then writes to memory.

    In a step a product writes back what kernels around it have written, which is taken to be as much as its
    own result. Fitted by benchmarks/fit_written_back.py.
    """

    us: float
    """Of the whole cache."""
    bytes: float
    """Reading these leaves 1/e of the lines."""

    def us_of(self, operation: Operation) -> float:
        """Microseconds of a product's cold time that a step does not have."""
        m, n, k = operation.shape
        result = operation.bytes * m * n / (m * n + m * k + n * k)
        read = operation.bytes - result
        return self.us * (math.exp(-result / self.bytes) - math.exp(-read / self.bytes))


class Profile(msgspec.Struct, kw_only=True):
    """The file of a profile: what it was fitted on, and a table for each class."""

    name: str = "profile"
    device: str = ""
    fitted_on: list[str] = []
    """Files and machines the rows come from."""
    peak: dict[str, float] = {}
    """Dense peak rate of the measured device by dtype, FLOP/s, from which times scale to other devices."""
    memory_bandwidth: float = 0.0
    cache_bytes: float = 0.0
    """The size of the last cache; 0 where it was not measured."""
    written_back: WrittenBack | None = None
    """What cold times contain besides their operations; None where they do not."""
    classes: dict[str, list[MeasuredRow]] = {}
    base: str = ""
    """The packaged profile whose times are carried to this device; a profile has this or `classes`."""
    of_steps: bool = False
    """Whether its rows are of recorded steps, whose clock was that of a whole step already."""
    corrections: dict[str, Correction] = {}
    """By kind of operation: how far the device's own times are from the carried ones."""

    def peak_rate(self, dtype: str) -> float:
        """The peak rate for a dtype; that of 16 bits where the file has none."""
        rate = figure_for(self.peak, dtype)
        return self.peak.get("bf16", 0.0) if rate is None else rate


class _Limits(Protocol):
    """What bounds the work of a device: a Device has it, and the profile of one."""

    @property
    def peak(self) -> dict[str, float]: ...

    @property
    def memory_bandwidth(self) -> float: ...

    def peak_rate(self, dtype: str) -> float: ...


DEFAULTS = {
    "gemm": "gemm.nt",
    "gemm_odd": "gemm_odd.nt",
    "attention": "attention.cudnn.causal",
    "attention_backward": "attention_backward.cudnn.causal",
    "layer_norm": "native_layer_norm",
    "layer_norm_backward": "native_layer_norm_backward",
    "softmax": "_softmax",
    "softmax_backward": "_softmax_backward_data",
    "sum": "sum.outer",
    "mean": "mean.inner",
    "adamw": "_fused_adamw",
    "batch_norm": "native_batch_norm",
    "batch_norm_backward": "native_batch_norm_backward",
    "batch_norm_nchw": "native_batch_norm.nchw",
    "batch_norm_backward_nchw": "native_batch_norm_backward.nchw",
}
"""The measured class used for a kind of operation without a more exact table."""
FEW = 4
"""A class with fewer rows than this says nothing of sizes beyond them: a wider class does. One row of a small
convolution once gave all large ones its 5.6 TFLOP/s, 60 times too slow."""
FLOORS = 10.0
"""A class's floor is its shortest time, but at most this multiple of the device's shortest: beyond that, only
large operations of the class were measured. Assumed."""
BEST = 0.8
"""The share of peak rate and bandwidth that good kernels reach (H200: 0.82 of the rate in products)."""
HIGHEST = 0.95
"""The share of a data sheet's rate that products stay below: the highest in tables of H200, H100, A100 and
B200 are 0.95, 0.97, 0.95 and 0.92; a correction between few rows could say more."""
SAME_DEVICE = 0.02
"""Devices whose limits differ by less than this share count as the same: less than any prediction's error."""
CARRIED = 0.15
"""Added to the error of a time that was measured on another device: the median error of products measured
on an H200 and carried to H100 and A100 (docs/accuracy.md)."""
BEYOND = 0.25
"""Added to the error where one class stands in for another. Assumed."""


SLOWEST = 0.014
"""The least share of the data sheet's limits that a product or convolution of 1 ms or more reached on
the H200, a depthwise one; dense ones reached 0.03."""
LONG = 100.0
"""Microseconds at the data sheet's limits from which that share holds: below, launches decide."""


def _is_product(operation: Operation) -> bool:
    """Whether it is one product of two matrices."""
    return operation.kind == "gemm" and len(operation.shape) == 3


_WITHOUT_PRODUCT_UNITS = ("fp32", "fp64")
"""Element types whose products do not run on the units that tables of other devices were made with: those are
of 16 bits, so that a correction by them says little of these."""


class Profiled:
    """The work model that gives device rows the profile's time; the rows of one operation share it.

    Operations of a class that the profile lacks count as streaming through memory. Rows about which
    nothing is known keep their measured time.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.name = f"profile {profile.name}"
        self.classes = {name: rows for name, rows in profile.classes.items() if rows}
        self._models: dict[str, ClassModel] = {}
        self._predictions: dict[tuple[Operation, float], Prediction | None] = {}

    @cached_property
    def base(self) -> Profiled | None:
        """The profile whose times are carried; reading its tables takes a tenth of a short command's time."""
        return packaged_profile(self.profile.base) if self.profile.base else None

    @cached_property
    def least_us(self) -> float:
        """The shortest time of any operation; 0 without tables."""
        return min((r.us for rows in self.classes.values() for r in rows), default=0.0)

    def model(self, name: str) -> ClassModel:
        """The model of a class, made when first asked for: a trace has few of a profile's classes."""
        if name not in self._models:
            rows = self.classes[name]
            floor_us = min(FLOORS * self.least_us, *(r.us for r in rows))
            self._models[name] = ClassModel(tuple(rows), floor_us)
        return self._models[name]

    @property
    def measured(self) -> Profile:
        """The profile with tables: this one, or the one that its times are carried from."""
        return self.profile if self.base is None else self.base.measured

    def predict(self, operation: Operation, resident: float = 0.0) -> Prediction | None:
        """The predicted time of an operation; None where no class fits it."""
        key = operation, round(resident, 2)
        if key not in self._predictions:
            prediction = self._predict(*key)
            self._predictions[key] = prediction and self._possible(prediction, operation)
        return self._predictions[key]

    def _possible(self, prediction: Prediction, operation: Operation) -> Prediction:
        """The prediction; an extrapolated one is no shorter than memory and product units allow.

        Nor is it longer than the slowest of its kind, in shares of the data sheet: a table of small
        operations says little of large ones.
        """
        profile = self.profile
        if not prediction.extrapolated or not profile.peak or not profile.memory_bandwidth:
            return prediction
        dtype = _element_type(operation)
        timed = self.timed_type(operation, dtype)
        units = rate_type(operation) if timed == dtype else timed
        product = operation.flops / profile.peak_rate(units) * 1e6
        from_memory = max(0.0, operation.bytes - profile.cache_bytes)
        least = max(product, from_memory / profile.memory_bandwidth * 1e6)
        us = max(prediction.us, least)
        if operation.kind.startswith(("gemm", "conv")) and least > LONG:
            us = min(us, least / SLOWEST)
        return prediction._replace(us=us)

    def _predict(self, operation: Operation, resident: float) -> Prediction | None:
        if self.base is not None:
            return self._on_own_device(operation, resident, self.base)
        timed, back = self._read_off(operation, resident), self.profile.written_back
        if timed is None or back is None or not _is_product(operation):
            return timed
        # Timed in the cache, nothing is written back; and memory is never faster than its data sheet.
        cold = (1 - resident) * self.waits_for_memory(operation)
        least = min(
            timed.us, operation.bytes / self.profile.memory_bandwidth * 1e6 * (1 - resident)
        )
        return timed._replace(us=max(least, timed.us - cold * max(0.0, back.us_of(operation))))

    def waits_for_memory(self, operation: Operation) -> float:
        """The share of a product's time in which more work of the memory delays it, by the data sheet."""
        computing = operation.flops / self.profile.peak_rate(rate_type(operation))
        return min(1.0, operation.bytes / self.profile.memory_bandwidth / max(computing, 1e-12))

    def as_timed(self, operation: Operation, resident: float = 0.0) -> Prediction | None:
        """The time by this profile's own tables alone: what those of other devices are carried from."""
        timed = self._read_off(operation, resident)
        return timed and self._possible(timed, operation)

    def _on_own_device(
        self, operation: Operation, resident: float, base: Profiled
    ) -> Prediction | None:
        """The base's time, carried to this profile's device and corrected by the tables of it."""
        measured = base.as_timed(operation, resident)
        if measured is None:
            return None
        carried = base.carried(measured, operation, self.profile)
        correction = self._correction(operation)
        if correction is None:
            return carried
        us = carried.us * correction.factor(operation.shape)
        if operation.kind == "gemm" and self.profile.peak:
            rate = HIGHEST * self.profile.peak_rate(rate_type(operation))
            us = max(us, operation.flops / rate * 1e6)
        untabled = carried.extrapolated or _element_type(operation) in _WITHOUT_PRODUCT_UNITS
        return Prediction(us, measured.error + correction.error, untabled)

    def _correction(self, operation: Operation) -> Correction | None:
        """The grid for operations of this kind, where it has as many sizes as the operation."""
        name = "decode" if operation.table.startswith("decode") else operation.kind
        grid = self.profile.corrections.get(name)
        return grid if grid is not None and len(grid.knots) == len(operation.shape) else None

    def _read_off(self, operation: Operation, resident: float) -> Prediction | None:
        """The time by the table of the operation's class."""
        exact = operation.table or operation.kind
        classes = [name for name in _names(operation) if name in self.classes]
        for name in classes:
            prediction = (model := self.model(name)).predict(operation, resident)
            if not prediction.extrapolated or len(model.rows) >= FEW or name == classes[-1]:
                named = name in (exact, operation.kind, DEFAULTS.get(operation.kind))
                if named and not _is_of_another_type(operation, name):
                    return prediction
                return Prediction(prediction.us, prediction.error + BEYOND, True)
        return self._generic(operation)

    def carried(self, prediction: Prediction, operation: Operation, device: _Limits) -> Prediction:
        """A prediction for the measured device, carried over to another device.

        The part of the time that the work takes at the best share of a device's limits scales with what
        limits it on each of the two: the rate of its element type or the memory's bandwidth. The rest is
        latency, which stays the same. A type that was not measured has the time of the type that was, on
        the measured device.
        """
        profile = self.profile
        if not (
            profile.peak and profile.memory_bandwidth and device.peak and device.memory_bandwidth
        ):
            return prediction
        dtype = _element_type(operation)
        timed = self.timed_type(operation, dtype)
        measured_seconds = max(
            operation.flops / profile.peak_rate(timed), operation.bytes / profile.memory_bandwidth
        )
        device_seconds = max(
            operation.flops / device.peak_rate(dtype), operation.bytes / device.memory_bandwidth
        )
        if not measured_seconds or abs(device_seconds / measured_seconds - 1) < SAME_DEVICE:
            return prediction
        work = min(prediction.us, measured_seconds * 1e6 / BEST)
        us = prediction.us + work * (device_seconds / measured_seconds - 1)
        return Prediction(us, prediction.error + CARRIED, prediction.extrapolated)

    def timed_type(self, operation: Operation, dtype: str) -> str:
        """The element type whose time an operation of this one has: its own, else 16 bits or TF32."""
        if self.base is not None:
            return dtype  # a carried profile went from what was timed to the type already
        unrounded = _is_unrounded(operation)
        if dtype in TIMED_AS_THEY_ARE and not unrounded:
            return dtype
        name = next(n for n in _names(operation) if n in self.classes or n == operation.kind)
        timed = _element_type(operation._replace(table=name))
        if unrounded and timed != "bf16":
            return "fp32" if _is_unrounded(operation._replace(table=name)) else "tf32"
        return timed if timed == dtype else "bf16"

    def _generic(self, operation: Operation) -> Prediction | None:
        """A lower bound with an error of 50 %: streaming the bytes, or the FLOPs at any class's best rate."""
        if "elementwise" not in self.classes:
            return None
        moved = max(1.0, operation.bytes)
        least = (
            self.model("elementwise")
            .predict(Operation("elementwise", (round(moved),), 0.0, moved))
            .us
        )
        rate = max(self.model(name).best_rate for name in self.classes)
        return Prediction(max(least, operation.flops / rate if rate > 1 else 0.0), 0.5, True)

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The profile's times where it has them, the measured ones elsewhere."""
        return self._costs(trace, *self._predicted(trace, device))

    def credible_costs(self, trace: Trace, device: Device) -> Costs:
        """The same for a recording beside which the device is held.

        Where the sizes that it states would take longer than any simulation lasts, they are not believed.
        """
        predicted = zip(*self._predicted(trace, device), strict=True)
        kept = [(row, (p, n)) for row, (p, n) in predicted if p.us / n <= MOST_SECONDS * 1e6]
        return self._costs(trace, [row for row, _ in kept], [of for _, of in kept])

    @staticmethod
    def _costs(trace: Trace, rows: list[int], predictions: list[tuple[Prediction, int]]) -> Costs:
        rest = as_measured(trace)
        ps, source, error = rest.ps.copy(), rest.source.copy(), rest.error.copy()
        share_us = np.array([p.us / n for p, n in predictions])
        ps[rows] = each_picoseconds(
            share_us * 1e-6, lambda i: f"node {trace.ids[rows[i]]}, by its profile,"
        )
        extrapolated = np.array([p.extrapolated for p, _ in predictions], bool)
        source[rows] = np.where(extrapolated, CostSource.EXTRAPOLATED, CostSource.PROFILE)
        error[rows] = [p.error for p, _ in predictions]
        return Costs(ps, source, error)

    def _predicted(
        self, trace: Trace, device: Device
    ) -> tuple[list[int], list[tuple[Prediction, int]]]:
        """The rows that the profile has a time for; of each its operation's prediction and number of rows."""
        cache = DeviceCache(self.measured.cache_bytes)
        on_device: dict[tuple[Operation, float], Prediction | None] = {}
        rows: list[int] = []
        predictions: list[tuple[Prediction, int]] = []
        for work in operations_of(trace):
            key = work.operation, round(cache.resident(work), 2)
            if key not in on_device:
                on_device[key] = self._within_a_step(*key, device)
            if (prediction := on_device[key]) is not None:
                rows += work.rows
                predictions += [(prediction, len(work.rows))] * len(work.rows)
        return rows, predictions

    def _within_a_step(
        self, operation: Operation, resident: float, device: Device
    ) -> Prediction | None:
        if operation.kind == HOST_COPY:
            return _over_link(operation, device)
        prediction = self.predict(operation, resident)
        if prediction is None:
            return None
        carried = self.carried(prediction, operation, device)
        return carried if self.profile.of_steps else _sustained(carried, operation, device)


def _over_link(operation: Operation, device: Device) -> Prediction:
    """A copy between host and device, which no table holds: the link decides, and not the device."""
    us = host_copy_seconds(operation, device) * 1e6
    if operation.table == PAGEABLE:
        return Prediction(us, PAGEABLE_ERROR, True)
    return Prediction(us, PINNED_ERROR, not device.host_bandwidth)


def _sustained(prediction: Prediction, operation: Operation, device: Device) -> Prediction:
    """The prediction within a whole step: what the rate of products limits takes longer there."""
    rate, bandwidth = device.peak_rate(_element_type(operation)), device.memory_bandwidth
    if device.sustained == 1.0 or operation.flops * bandwidth <= operation.bytes * rate:
        return prediction
    return prediction._replace(us=prediction.us / device.sustained)


def _element_type(operation: Operation) -> str:
    """The element type that an operation's class names."""
    parts = operation.table.split(".")
    if _is_unrounded(operation):
        return "fp32"
    return next((d for d, mark in PRODUCT_MARKS.items() if mark[1:] in parts), "bf16")


def _is_of_another_type(operation: Operation, name: str) -> bool:
    """Whether a class timed product units, and the operation's element type has none."""
    dtype = _element_type(operation)
    timed = _element_type(operation._replace(table=name))
    return dtype in _WITHOUT_PRODUCT_UNITS and timed != dtype


def _is_unrounded(operation: Operation) -> bool:
    """Whether the program forbids TF32 where PyTorch's default, in which classes were timed, allows it."""
    return IEEE in operation.table.split(".")


def rate_type(operation: Operation) -> str:
    """The element type whose rate bounds an operation.

    PyTorch lets convolutions in fp32 run in TF32 unless the program forbids it.
    """
    dtype = _element_type(operation)
    rounds = operation.kind.startswith("conv") and not _is_unrounded(operation)
    return "tf32" if dtype == "fp32" and rounds else dtype


def _names(operation: Operation) -> Iterator[str]:
    """Names of classes that may hold an operation, best first.

    Convolutions in fp32 were timed with channels first; with channels last they count as those. Products in
    TF32 that were not timed have the times of 16 bits, which run on the same units.
    """
    rounded = PRODUCT_MARKS["tf32"]
    for name in _coarser(operation):
        yield name
        if rounded in name:
            yield name.replace(rounded, "")
        if operation.kind.startswith("conv") and ".fp32" in name:
            yield name.replace(f"{operation.kind}.", f"{operation.kind}_nchw.", 1)


def _coarser(operation: Operation) -> Iterator[str]:
    """Its own class, coarser ones, then its kind."""
    yield operation.table
    for tail in (".strided", ".broadcast"):
        if operation.table.endswith(tail):
            yield f"elementwise{tail}"
    name = operation.table.rpartition(".")[0]
    while name:
        yield name
        name = name.rpartition(".")[0]
    yield operation.kind
    if operation.kind in DEFAULTS:
        yield DEFAULTS[operation.kind]


_PROFILES = Path(__file__).parent.parent / "profiles"


def work_model(name: str) -> WorkModel:
    """The work model `auto`, `measured`, `data-sheet` or `roofline`, or of a packaged profile or a file."""
    if name == "auto":
        return Auto(_profile_of)
    if name == "measured":
        return Measured()
    if name == "data-sheet":
        return DataSheet()
    return Roofline() if name == "roofline" else Profiled(find_profile(name))


@cache
def packaged_profile(name: str) -> Profiled:
    """A profile by its name or file, read once."""
    return Profiled(find_profile(name))


def _profile_of(device: Device) -> Profiled | None:
    """The profile that a device's description names."""
    return packaged_profile(device.profile) if device.profile else None


def find_profile(name: str) -> Profile:
    """A profile by the name of one that comes with the package, or by its file."""
    packaged = _PROFILES / f"{name}.json"
    if packaged.is_file() and packaged.parent == _PROFILES:
        # Ours, and checked by the tests: the checks of a stranger's file take three times as long.
        return msgspec.json.decode(packaged.read_bytes(), type=Profile)
    if Path(name).is_file():
        return read_profile(Path(name))
    names = [
        "auto",
        "measured",
        "data-sheet",
        "roofline",
        *sorted(f.stem for f in _PROFILES.glob("*.json")),
    ]
    raise ConfigError(f"--compute {name}: no such model and no file; {nearest(name, names)}")


LARGEST_SIZE = 2**63
"""Sizes of tensors are numbers of 64 bits."""


def read_profile(path: Path) -> Profile:
    """The profile of a file, checked."""
    profile = read_json(path, Profile, "a profile")
    if bool(profile.base) == bool(profile.classes):
        raise ConfigError(f"{path}: give either `classes` or the `base` whose times are carried")
    if profile.base and not (profile.peak.get("bf16") and profile.memory_bandwidth):
        raise ConfigError(f"{path}: times are carried by `peak` (with bf16) and `memory_bandwidth`")
    if profile.base and not (_PROFILES / f"{profile.base}.json").is_file():
        raise ConfigError(f"{path}: base {profile.base!r} is not a packaged profile")
    check_corrections(profile.corrections, str(path))
    back = profile.written_back
    if back is not None and not (0 <= back.us < math.inf and 0 < back.bytes < math.inf):
        raise ConfigError(
            f"{path}: written_back: give `us` of 0 or more and `bytes` of more than 0"
        )
    for name, rows in profile.classes.items():
        if len({len(r.shape) for r in rows}) > 1:
            raise ConfigError(f"{path}: class {name!r} mixes shapes of different lengths")
        if any(r.us <= 0 for r in rows):
            raise ConfigError(f"{path}: class {name!r} has a time that is not more than 0")
        if any(not -LARGEST_SIZE < size < LARGEST_SIZE for r in rows for size in r.shape):
            raise ConfigError(f"{path}: class {name!r} has a size beyond 64 bits")
    return profile


def write_profile(profile: Profile, path: Path) -> None:
    """Writes a profile as indented JSON, which people can read."""
    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")
