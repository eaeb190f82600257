"""Device: what one accelerator can do, and what it costs."""

from __future__ import annotations

from typing import get_args

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.power import PowerConstants, check_power
from chakrakit.machines.device.quantities import Quantity, parse, positive
from chakrakit.operators import WorkingType, dtype_name, figure_for
from chakrakit.results import short_repr


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
