"""Devices: the rates, memory, power and price of one accelerator, and the units they are written in."""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.power import PowerConstants, check_power
from chakrakit.operators import WorkingType, dtype_name, figure_for
from chakrakit.results import short_repr

# --- numbers with units: "450 GB/s", "400 Gb/s", "300 ns", "80 GiB" -----------------------------


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
_TITLES = {
    "bandwidth": "a bandwidth",
    "bytes": "a number of bytes",
    "time": "a time",
    "rate": "a rate",
    "power": "a power",
}
"""What errors call the kinds of quantities."""
_TEXT = re.compile(r"\s*([0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµ/]*)\s*$")


def parse(value: Quantity, kind: str, where: str) -> float:
    """The value in base units; `kind` is bandwidth, bytes, time, rate or power."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(f"{where}: {value!r} is not {_TITLES[kind]}")
    number = float(value) if isinstance(value, (int, float)) else _with_unit(value, kind, where)
    if not 0 <= number < float("inf"):
        raise ConfigError(f"{where}: {value!r} is not {_TITLES[kind]} of 0 or more")
    return number


def positive(value: Quantity, kind: str, where: str) -> float:
    """The value in base units, as `parse` gives it; zero is an error too."""
    number = parse(value, kind, where)
    if number == 0:
        raise ConfigError(
            f"{where}: with {_TITLES[kind]} of 0 nothing would ever finish; give more than 0"
        )
    return number


def _with_unit(text: str, kind: str, where: str) -> float:
    match = _TEXT.match(text)
    units = _UNITS[kind]
    if match is None or (match[2] and match[2] not in units):
        examples = ", ".join(list(units)[:4])
        raise ConfigError(
            f"{where}: {text!r} is not {_TITLES[kind]}; write a number and one of {examples}, …"
        )
    try:
        return float(match[1].replace("_", "")) * (units[match[2]] if match[2] else 1.0)
    except ValueError:
        raise ConfigError(f"{where}: {match[1]!r} is not a number") from None


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
    compute_efficiency: float | None = None
    """Achievable share of the peak rate, for the roofline; 1 unless given."""
    memory_efficiency: float | None = None
    achieved: dict[str, float] = {}
    """Shares of the peaks that kernels of training reach, for the roofline: by element type, for fused
    `attention` (of the 16-bit peak) and for `memory` (of its bandwidth). The two efficiencies apply where
    a key is missing."""
    kernel_overhead: Quantity = 0
    """Shortest time a kernel takes."""
    power: Quantity = 0
    """The device's power limit."""
    idle_power: Quantity = 0
    dynamic: PowerConstants | None = None
    """Power by class of work and clock; without it, the device draws `power` whenever work runs."""
    price_per_hour: float = 0.0
    """In US dollars."""
    comm_slowdown: float = 0.0
    """While the device communicates, compute takes 1 + comm_slowdown times as long."""
    sustained: float = 1.0
    """Share of the rate of single products that a whole step of them sustains, on devices without power
    constants, which would say how far their limit lowers the clock."""
    profile: str = ""
    """The packaged profile that gives the time of rows without a measured one: of this device, or of the
    nearest one that was measured, from which times are carried by the peaks of the two."""
    sources: dict[str, str] = {}
    """The source of each number, by field."""


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
    sustained: float = 1.0
    states_shares: bool = True
    """Whether its file says what share of its rates kernels reach."""

    def __repr__(self) -> str:
        return short_repr(self)

    def peak_rate(self, dtype: str) -> float:
        """The peak rate for a dtype; where the device has none, that of a type models usually work in."""
        rate = figure_for(self.peak, dtype)
        if rate is not None:
            return rate
        usual = [self.peak[name] for name in get_args(WorkingType) if name in self.peak]
        return usual[0] if usual else max(self.peak.values(), default=0.0)


def read_device(text: DeviceText, where: str) -> Device:
    """The device of a description, with every number checked."""
    for name in ("compute_efficiency", "memory_efficiency"):
        share = getattr(text, name)
        if share is not None and not 0 < share <= 1:
            raise ConfigError(f"{where}.{name}: {share} is not in (0, 1]")
    for name in ("comm_slowdown", "price_per_hour"):
        if not 0 <= getattr(text, name) < float("inf"):
            raise ConfigError(f"{where}.{name}: {getattr(text, name)} is not 0 or more")
    if not 0 < text.sustained <= 1:
        raise ConfigError(f"{where}.sustained: {text.sustained} is not in (0, 1]")
    _check_achieved(text, where)
    if text.dynamic is not None:
        check_power(text.dynamic, f"{where}.dynamic")
    return Device(
        name=text.name,
        peak=_peaks(text, where),
        memory=parse(text.memory, "bytes", f"{where}.memory"),
        memory_bandwidth=parse(text.memory_bandwidth, "bandwidth", f"{where}.memory_bandwidth"),
        compute_efficiency=_or_all(text.compute_efficiency),
        memory_efficiency=_or_all(text.memory_efficiency),
        kernel_overhead=parse(text.kernel_overhead, "time", f"{where}.kernel_overhead"),
        power=parse(text.power, "power", f"{where}.power"),
        idle_power=parse(text.idle_power, "power", f"{where}.idle_power"),
        price_per_hour=text.price_per_hour,
        comm_slowdown=text.comm_slowdown,
        sources=text.sources,
        profile=text.profile,
        dynamic=text.dynamic,
        sustained=text.sustained,
        achieved={dtype_name(name): share for name, share in text.achieved.items()},
        states_shares=bool(text.achieved)
        or not text.compute_efficiency is text.memory_efficiency is None,
    )


def _or_all(share: float | None) -> float:
    return 1.0 if share is None else share


def _peaks(text: DeviceText, where: str) -> dict[str, float]:
    """Peak rates by the short names of element types; files may use other spellings."""
    peaks = {dtype_name(d): positive(v, "rate", f"{where}.peak.{d}") for d, v in text.peak.items()}
    if len(peaks) < len(text.peak):
        raise ConfigError(f"{where}.peak: {', '.join(text.peak)} contain one element type twice")
    return peaks


def _check_achieved(text: DeviceText, where: str) -> None:
    kinds = [*map(dtype_name, text.peak), "attention", "memory"]
    for name, share in text.achieved.items():
        if dtype_name(name) not in kinds:
            raise ConfigError(f"{where}.achieved: no {name!r}; {nearest(name, kinds)}")
        if not 0 < share <= 1:
            raise ConfigError(f"{where}.achieved.{name}: {share} is not in (0, 1]")
