"""Device: what one accelerator can do, and what it costs."""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.power import PowerConstants, check_power
from chakrakit.operators import WorkingType, dtype_name, figure_for
from chakrakit.results import short_repr

# Numbers with units, as people write them: "450 GB/s", "400 Gb/s", "300 ns", "80 GiB".


Quantity = float | int | str
"""A number in base units (bytes, bytes/s, seconds, FLOP/s, watts), or text with a unit."""

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZES = {
    f"{p}{u}": f * s for p, f in (_DECIMAL | _BINARY).items() for u, s in (("B", 1), ("b", 1 / 8))
}
_UNITS: dict[str, dict[str, float]] = {
    "bandwidth": {f"{u}/s": f for u, f in _SIZES.items()}
    | {f"{u}bps": f / 8 for u, f in _DECIMAL.items() if u},
    "bytes": _SIZES,
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12},
    "rate": {f"{p}FLOP/s": f for p, f in _DECIMAL.items()}
    | {f"{p}FLOPS": f for p, f in _DECIMAL.items()},
    "power": {"W": 1.0, "kW": 1e3},
}
_TEXT = re.compile(r"\s*([0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*$")


def parse(value: Quantity, kind: str, where: str) -> float:
    """The value in base units; `kind` is bandwidth, bytes, time, rate or power."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(f"{where}: {value!r} is no {kind}")
    number = float(value) if isinstance(value, (int, float)) else _with_unit(value, kind, where)
    if not 0 <= number < float("inf"):
        raise ConfigError(f"{where}: {value!r} is not a {kind} of 0 or more")
    return number


def positive(value: Quantity, kind: str, where: str) -> float:
    """The same, but zero is an error too."""
    number = parse(value, kind, where)
    if number == 0:
        raise ConfigError(
            f"{where}: a {kind} of 0 would never let anything finish; give more than 0"
        )
    return number


def _with_unit(text: str, kind: str, where: str) -> float:
    found = _TEXT.match(text)
    units = _UNITS[kind]
    if found is None or (found[2] and found[2] not in units):
        some = ", ".join(list(units)[:4])
        raise ConfigError(f"{where}: {text!r} is no {kind}; write a number and one of {some}, …")
    try:
        return float(found[1].replace("_", "")) * (units[found[2]] if found[2] else 1.0)
    except ValueError:
        raise ConfigError(f"{where}: {found[1]!r} is no number") from None


def show_bandwidth(value: float) -> str:
    """`450 GB/s` for 450e9."""
    return _show(value, "B/s")


def show_bytes(value: float) -> str:
    """`80 GB` for 80e9."""
    return _show(value, "B")


def show_time(seconds: float) -> str:
    """`1.5 us` for 1.5e-6."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.6g} {unit}"
    return f"{seconds / 1e-9:.6g} ns"


def _show(value: float, unit: str) -> str:
    for prefix in ("P", "T", "G", "M", "k"):
        if value >= _DECIMAL[prefix]:
            return f"{value / _DECIMAL[prefix]:.6g} {prefix}{unit}"
    return f"{value:.6g} {unit}"


class DeviceText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A device as a file describes it."""

    name: str = "device"
    peak: dict[str, Quantity] = {}
    """Dense peak rate by dtype, FLOP/s."""
    memory: Quantity = 0
    memory_bandwidth: Quantity = 0
    compute_efficiency: float = 1.0
    """Achievable share of the peak rate, for the roofline."""
    memory_efficiency: float = 1.0
    achieved: dict[str, float] = {}
    """What kernels of training reach, for the roofline: shares of the peak by element type, of the 16-bit
    peak in fused `attention`, and of the `memory`'s bandwidth; for the rest, the two efficiencies."""
    kernel_overhead: Quantity = 0
    """Shortest time a kernel takes."""
    power: Quantity = 0
    """The limit that the device holds itself to."""
    idle_power: Quantity = 0
    dynamic: PowerConstants | None = None
    """What work adds to idle power, by class and clock; without it, `power` is drawn whenever work runs."""
    price_per_hour: float = 0.0
    """In US dollars."""
    comm_slowdown: float = 0.0
    """Compute takes 1 + this times as long while the device communicates."""
    profile: str = ""
    """A profile of measured operations that comes with the package, for rows that nobody measured."""
    sources: dict[str, str] = {}
    """Where each number is from, by field."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device in base units: FLOP/s, bytes, bytes/s, seconds, watts."""

    name: str
    peak: dict[str, float]
    memory: float
    memory_bandwidth: float
    compute_efficiency: float
    memory_efficiency: float
    kernel_overhead: float
    power: float
    idle_power: float
    price_per_hour: float
    comm_slowdown: float
    sources: dict[str, str]
    profile: str = ""
    dynamic: PowerConstants | None = None
    achieved: dict[str, float] = {}

    def __repr__(self) -> str:
        return short_repr(self)

    def peak_rate(self, dtype: str) -> float:
        """The rate for a dtype; where the device does not name it, that of the type models work in."""
        own = figure_for(self.peak, dtype)
        if own is not None:
            return own
        usual = [self.peak[name] for name in get_args(WorkingType) if name in self.peak]
        return usual[0] if usual else max(self.peak.values(), default=0.0)


def read_device(text: DeviceText, where: str) -> Device:
    """The device with every number checked."""
    for name in ("compute_efficiency", "memory_efficiency"):
        if not 0 < getattr(text, name) <= 1:
            raise ConfigError(f"{where}.{name}: {getattr(text, name)} is not in (0, 1]")
    for name in ("comm_slowdown", "price_per_hour"):
        if not 0 <= getattr(text, name) < float("inf"):
            raise ConfigError(f"{where}.{name}: {getattr(text, name)} is not 0 or more")
    _check_achieved(text, where)
    if text.dynamic is not None:
        check_power(text.dynamic, f"{where}.dynamic")
    return Device(
        name=text.name,
        peak=_peaks(text, where),
        memory=parse(text.memory, "bytes", f"{where}.memory"),
        memory_bandwidth=parse(text.memory_bandwidth, "bandwidth", f"{where}.memory_bandwidth"),
        compute_efficiency=text.compute_efficiency,
        memory_efficiency=text.memory_efficiency,
        kernel_overhead=parse(text.kernel_overhead, "time", f"{where}.kernel_overhead"),
        power=parse(text.power, "power", f"{where}.power"),
        idle_power=parse(text.idle_power, "power", f"{where}.idle_power"),
        price_per_hour=text.price_per_hour,
        comm_slowdown=text.comm_slowdown,
        sources=text.sources,
        profile=text.profile,
        dynamic=text.dynamic,
        achieved={dtype_name(name): share for name, share in text.achieved.items()},
    )


def _peaks(text: DeviceText, where: str) -> dict[str, float]:
    """Rates by the short names of element types, however the file spells them."""
    peaks = {dtype_name(d): positive(v, "rate", f"{where}.peak.{d}") for d, v in text.peak.items()}
    if len(peaks) < len(text.peak):
        raise ConfigError(f"{where}.peak: {', '.join(text.peak)} name one element type twice")
    return peaks


def _check_achieved(text: DeviceText, where: str) -> None:
    known = [*map(dtype_name, text.peak), "attention", "memory"]
    for name, share in text.achieved.items():
        if dtype_name(name) not in known:
            raise ConfigError(f"{where}.achieved: no {name!r}; {nearest(name, known)}")
        if not 0 < share <= 1:
            raise ConfigError(f"{where}.achieved.{name}: {share} is not in (0, 1]")
