"""Profiles: tables of measured operations, and times for others read off between them.

A class of operations (`gemm`, `attention`, …) is a table of shapes and times. A prediction starts from the
class's own roofline (the best rate and bandwidth in the table, and its shortest time) and multiplies it by
what neighbouring rows took over theirs: the nearest rows in the logarithm of the shape count, the closer
the more. Far from all rows the roofline is what remains, which grows with the work as it should. The error
estimate comes from leaving each row out in turn, and grows with the distance to the nearest row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError
from chakrakit.machines.device.clock import picoseconds
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.operations import Operation, operations_of
from chakrakit.machines.device.work import (
    Auto,
    Costs,
    CostSource,
    Measured,
    Roofline,
    WorkModel,
    as_measured,
)
from chakrakit.trace.files import replacing
from chakrakit.trace.model import Trace

NEIGHBOURS = 6
ERROR_PER_OCTAVE = 0.10
"""Share of the time that a prediction may be off for each doubling away from the nearest row. Assumed."""


class Row(msgspec.Struct, frozen=True):
    """One measured operation."""

    shape: list[int]
    us: float
    flops: float = 0.0
    bytes: float = 0.0


class Profile(msgspec.Struct, kw_only=True):
    """The file: what it was fitted on, and the tables by class."""

    name: str = "profile"
    device: str = ""
    fitted_on: list[str] = []
    """Files and machines the rows come from."""
    classes: dict[str, list[Row]]


class Prediction(NamedTuple):
    """A time, and by what share of it the truth may differ (one standard error, about)."""

    us: float
    error: float


@dataclass(frozen=True, eq=False)
class ClassModel:
    """One class's table, ready to be asked. Asking with a shape of other length uses FLOPs and bytes.

    `floor_us` is the shortest time anything takes on the device; the table's own shortest by default.
    """

    rows: tuple[Row, ...]
    floor_us: float = 0.0

    @cached_property
    def _shape(self) -> F64:
        return _log2([r.shape for r in self.rows])

    @cached_property
    def _work(self) -> F64:
        return _log2([[r.flops, r.bytes] for r in self.rows])

    @cached_property
    def _us(self) -> F64:
        return np.array([r.us for r in self.rows])

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
        for i in range(len(self.rows)):
            guess, _ = _blend(
                self._shape, self._residual, self._shape[i], np.arange(len(self.rows)) != i
            )
            out[i] = guess - self._residual[i]
        return out

    def predict(self, operation: Operation) -> Prediction:
        """The time of an operation of this class."""
        by_shape = len(operation.shape) == len(self.rows[0].shape) and len(operation.shape) > 0
        table = self._shape if by_shape else self._work
        asked = operation.shape if by_shape else (operation.flops, operation.bytes)
        point = np.log2(np.maximum(1, np.array(asked, np.float64)))
        residual, nearest = _blend(table, self._residual, point, np.ones(len(self.rows), np.bool_))
        distance = np.abs(table - point).max(1).min()
        spread = float(np.abs(self.leave_one_out[nearest]).mean()) if len(self.rows) > 2 else 0.5
        us = self.roofline_us(operation.flops, operation.bytes) * float(np.exp(residual))
        return Prediction(us, spread + ERROR_PER_OCTAVE * max(0.0, float(distance) - 0.5))


def _log2(values: Any) -> F64:
    return np.asarray(np.log2(np.maximum(1, np.array(values, np.float64))), np.float64)


def _blend(table: F64, values: F64, point: F64, allowed: Mask) -> tuple[float, I64]:
    """The neighbours' values, weighted by closeness; beyond two octaves they fade."""
    distance = np.sqrt(((table - point) ** 2).sum(1))
    distance = np.where(allowed, distance, np.inf)
    nearest = np.argsort(distance, kind="stable")[: min(NEIGHBOURS, int(allowed.sum()))]
    if not len(nearest):
        return 0.0, nearest
    weight = 1 / (distance[nearest] ** 2 + 1e-3)
    fade = (
        min(1.0, 2.0 / max(float(distance[nearest[0]]), 1e-9)) if distance[nearest[0]] > 2 else 1.0
    )
    return float((weight * values[nearest]).sum() / weight.sum()) * fade, nearest


class Profiled:
    """Device rows get the profile's time for their operation; several rows of one operation share it.

    Operations of a class the profile does not have count as streaming through memory. Rows of which
    nothing is known keep what was measured.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.name = f"profile {profile.name}"
        floor = min((r.us for rows in profile.classes.values() for r in rows), default=0.0)
        self.models = {n: ClassModel(tuple(r), floor) for n, r in profile.classes.items() if r}
        self._known: dict[Operation, Prediction | None] = {}

    def predict(self, operation: Operation) -> Prediction | None:
        """None for an operation no class knows."""
        if operation not in self._known:
            model = self.models.get(operation.kind)
            self._known[operation] = model.predict(operation) if model else self._generic(operation)
        return self._known[operation]

    def _generic(self, operation: Operation) -> Prediction | None:
        """Streaming its bytes, or as many FLOPs at the best rate of any class: a bound, hence ±50 %."""
        stream = self.models.get("elementwise")
        if stream is None:
            return None
        moved = max(1.0, operation.bytes)
        least = stream.predict(Operation("elementwise", (round(moved),), 0.0, moved)).us
        rate = max(model.best_rate for model in self.models.values())
        return Prediction(max(least, operation.flops / rate if rate > 1 else 0.0), 0.5)

    def costs(self, trace: Trace, device: Device) -> Costs:
        """Predicted where possible."""
        rest = as_measured(trace)
        ps, source = rest.ps.copy(), rest.source.copy()
        for rows, operation, _ in operations_of(trace):
            found = self.predict(operation)
            if found is not None:
                first = f"node {trace.ids[rows[0]]}, by its profile,"
                ps[list(rows)] = picoseconds(found.us * 1e-6 / len(rows), first)
                source[list(rows)] = CostSource.PROFILE
        return Costs(ps, source)


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
    known = ", ".join(sorted(f.stem for f in _OWN.glob("*.json")))
    raise ConfigError(
        f"--compute {name}: give auto, measured, roofline, a profile's file, or one of {known}"
    )


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
