"""Profiles: tables of measured operations by class, and the work model that reads times off them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.cache import Cache
from chakrakit.machines.device.clock import picoseconds
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.tables import ClassModel, Prediction, Row
from chakrakit.machines.device.work import (
    Auto,
    Costs,
    CostSource,
    Measured,
    Roofline,
    WorkModel,
    as_measured,
)
from chakrakit.machines.operations import operations_of
from chakrakit.operators import Operation
from chakrakit.trace.files import replacing
from chakrakit.trace.model import Trace


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
