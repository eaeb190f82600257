"""Profiles: tables of measured operations by class, and the work model that reads times off them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.launchers import Touch, Work, operations_of
from chakrakit.machines.device.work import (
    Auto,
    Costs,
    CostSource,
    Measured,
    Roofline,
    WorkModel,
    as_measured,
    picoseconds,
)
from chakrakit.operators import Operation
from chakrakit.trace.files import replacing
from chakrakit.trace.model import Trace

# Residency: which share of what an operation reads is still in the device's cache.
#
# A storage is found in the cache if, since it was last touched, no more than the cache's size has been
# touched besides it. Operations are taken in the order of the trace; what it does not know (tensors without a
# storage) is not in the cache.


class Cache:
    """What was touched when, in bytes since the beginning; `size` is how many of them stay."""

    def __init__(self, size: float) -> None:
        self.size = size
        self._clock = 0.0
        self._touched: dict[int, float] = {}

    def resident(self, work: Work) -> float:
        """The share of the bytes it reads that is in the cache; then it has run, and its own are."""
        total = sum(t.bytes for t in work.reads)
        found = sum(self._share(t) * t.bytes for t in work.reads)
        self._touch(work.reads)
        self._touch(work.writes)
        return found / total if total else 0.0

    def _share(self, touch: Touch) -> float:
        """All of a storage that was touched lately, none of one touched long ago, a part in between."""
        if not self.size or touch.storage not in self._touched:
            return 0.0
        since = self._clock - self._touched[touch.storage]
        return min(1.0, max(0.0, 2.0 - 2.0 * (since + touch.bytes / 2) / self.size))

    def _touch(self, touches: Iterable[Touch]) -> None:
        for touch in touches:
            self._clock += touch.bytes
            self._touched[touch.storage] = self._clock


# Tables: measured operations of one class, and times for others read off between them.
#
# A prediction starts from the class's own roofline (the best rate and bandwidth in the table, and its
# shortest time) and multiplies it by what neighbouring rows took over theirs: a plane through the nearest
# rows in the logarithms of the shape, the closer ones counting more, its slopes held back where rows are few.
# It never leaves the neighbours' mean by more than a factor, so that far from all rows the roofline decides,
# which grows with the work as it should. The error estimate comes from leaving each row out in turn,
# and grows with the distance to the nearest row.


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


class Profile(msgspec.Struct, kw_only=True):
    """The file: what it was fitted on, and the tables by class."""

    name: str = "profile"
    device: str = ""
    fitted_on: list[str] = []
    """Files and machines the rows come from."""
    peak: dict[str, float] = {}
    """Dense peak rate by dtype of the measured device, FLOP/s; for other devices times are scaled."""
    memory_bandwidth: float = 0.0
    cache_bytes: float = 0.0
    """How much of what was touched last stays in the cache; 0 where nobody measured it."""
    classes: dict[str, list[Row]]


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
"""The measured class that stands for a kind of which no more is known."""
FLOORS = 10.0
"""A class's shortest time is its floor, unless it is so many times the device's: then only large operations
were measured. Assumed."""
BEST = 0.8
"""The share of peak rate and bandwidth that good kernels reach (H200: 0.82 of the rate in products)."""
SAME_DEVICE = 0.02
"""Devices whose limits differ by less are taken for the same."""
CARRIED = 0.15
"""What is added to the error of a time that was measured on another device: the median error with which
products of an H200 are carried to H100 and A100 (docs/accuracy.md)."""
BEYOND = 0.25
"""Error of a class that stands in for another. Assumed."""


class Profiled:
    """Device rows get the profile's time for their operation; several rows of one operation share it.

    Operations of a class the profile does not have count as streaming through memory. Rows of which
    nothing is known keep what was measured.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.name = f"profile {profile.name}"
        self.least_us = min((r.us for rows in profile.classes.values() for r in rows), default=0.0)
        self.models = {
            name: ClassModel(tuple(rows), min(FLOORS * self.least_us, *(r.us for r in rows)))
            for name, rows in profile.classes.items()
            if rows
        }
        self._known: dict[tuple[Operation, float], Prediction | None] = {}

    def model(self, kind: str) -> ClassModel | None:
        """The table of a kind of operations, or of the class that stands for it."""
        return self.models.get(kind) or self.models.get(DEFAULTS.get(kind, ""))

    def predict(self, operation: Operation, resident: float = 0.0) -> Prediction | None:
        """None for an operation no class knows."""
        key = operation, round(resident, 2)
        if key not in self._known:
            found = self._predict(*key)
            self._known[key] = found and self._possible(found, operation)
        return self._known[key]

    def _possible(self, found: Prediction, operation: Operation) -> Prediction:
        """The prediction, but nothing extrapolated that memory or product units could not do."""
        own = self.profile
        if not found.extrapolated or not own.peak or not own.memory_bandwidth:
            return found
        from_memory = max(0.0, operation.bytes - own.cache_bytes)
        least = max(operation.flops / max(own.peak.values()), from_memory / own.memory_bandwidth)
        return found._replace(us=max(found.us, least * 1e6))

    def _predict(self, operation: Operation, resident: float) -> Prediction | None:
        exact = operation.table or operation.kind
        for name in _names(operation):
            if (model := self.models.get(name)) is not None:
                found = model.predict(operation, resident)
                if name in (exact, operation.kind, DEFAULTS.get(operation.kind)):
                    return found
                return Prediction(found.us, found.error + BEYOND, True)
        return self._generic(operation)

    def carried(self, found: Prediction, operation: Operation, device: Device) -> Prediction:
        """A prediction for the device that was measured, on another one.

        What the work takes at the best share of a device's limits goes with what limits it on each of the
        two, the rate of its element type or the bandwidth of the memory; what is above that is latency,
        which is the same everywhere.
        """
        own = self.profile
        if not (own.peak and own.memory_bandwidth and device.peak and device.memory_bandwidth):
            return found
        dtype = next((d for d in ("fp32", "tf32") if f".{d}" in operation.table), "bf16")
        here = max(
            operation.flops / own.peak.get(dtype, own.peak["bf16"]),
            operation.bytes / own.memory_bandwidth,
        )
        there = max(
            operation.flops / device.peak_rate(dtype), operation.bytes / device.memory_bandwidth
        )
        if not here or abs(there / here - 1) < SAME_DEVICE:
            return found
        work = min(found.us, here * 1e6 / BEST)
        us = found.us + work * (there / here - 1)
        return Prediction(us, found.error + CARRIED, found.extrapolated)

    def _generic(self, operation: Operation) -> Prediction | None:
        """Streaming its bytes, or as many FLOPs at the best rate of any class: a bound, hence ±50 %."""
        stream = self.models.get("elementwise")
        if stream is None:
            return None
        moved = max(1.0, operation.bytes)
        least = stream.predict(Operation("elementwise", (round(moved),), 0.0, moved)).us
        rate = max(model.best_rate for model in self.models.values())
        return Prediction(max(least, operation.flops / rate if rate > 1 else 0.0), 0.5, True)

    def costs(self, trace: Trace, device: Device) -> Costs:
        """Predicted where possible."""
        rest = as_measured(trace)
        ps, source, error = rest.ps.copy(), rest.source.copy(), rest.error.copy()
        cache = Cache(self.profile.cache_bytes)
        for work in operations_of(trace):
            found = self.predict(work.operation, cache.resident(work))
            if found is not None:
                found = self.carried(found, work.operation, device)
                rows = list(work.rows)
                first = f"node {trace.ids[rows[0]]}, by its profile,"
                ps[rows] = picoseconds(found.us * 1e-6 / len(rows), first)
                source[rows] = CostSource.EXTRAPOLATED if found.extrapolated else CostSource.PROFILE
                error[rows] = found.error
        return Costs(ps, source, error)


def _names(operation: Operation) -> Iterator[str]:
    """Classes to ask, the closest first: its own, coarser ones, one like it, its kind."""
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


_OWN = Path(__file__).parent.parent / "profiles"


def work_model(name: str) -> WorkModel:
    """`auto`, `measured`, `roofline`, a profile that comes with the package (`h200`), or its file."""
    if name == "auto":
        return Auto(_profile_of)
    if name == "measured":
        return Measured()
    return Roofline() if name == "roofline" else Profiled(find_profile(name))


@cache
def _own_profile(name: str) -> Profiled:
    return Profiled(find_profile(name))


def _profile_of(device: Device) -> Profiled | None:
    """The profile that a device's description names."""
    return _own_profile(device.profile) if device.profile else None


def find_profile(name: str) -> Profile:
    """A profile by the name of one that comes with the package, or by its file."""
    own = _OWN / f"{name}.json"
    if own.is_file() and own.parent == _OWN:
        return read_profile(own)
    if Path(name).is_file():
        return read_profile(Path(name))
    known = ["auto", "measured", "roofline", *sorted(f.stem for f in _OWN.glob("*.json"))]
    raise ConfigError(f"--compute {name}: no such model and no file; {nearest(name, known)}")


def read_profile(path: Path) -> Profile:
    """A profile's file, checked."""
    profile = read_json(path, Profile, "a profile")
    for name, rows in profile.classes.items():
        if len({len(r.shape) for r in rows}) > 1:
            raise ConfigError(f"{path}: class {name!r} mixes shapes of different lengths")
        if any(r.us <= 0 for r in rows):
            raise ConfigError(f"{path}: class {name!r} has a time that is not more than 0")
    return profile


def write_profile(profile: Profile, path: Path) -> None:
    """Indented, so that people can read it."""
    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")
