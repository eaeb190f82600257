"""Devices: the rates, memory, power and price of one accelerator, and the units inside it."""

from __future__ import annotations

from typing import get_args

import msgspec

from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.power import PowerConstants, check_power
from chakrakit.machines.device.quantities import Quantity, parse, positive
from chakrakit.machines.device.units import Unit, UnitText, read_units
from chakrakit.operators import WorkingType, dtype_name, figure_for
from chakrakit.results import short_repr


class DeviceText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A device as a file describes it."""

    name: str = "device"
    peak: dict[str, Quantity] = {}
    """Dense peak rate by dtype, FLOP/s."""
    memory: Quantity = 0
    memory_bandwidth: Quantity = 0
    host_bandwidth: Quantity = 0
    """Between its memory and its host's, each way; PCI Express 5 x16 is assumed where it is 0."""
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
    """While its communication moves bytes, compute takes 1 + comm_slowdown times as long."""
    sustained: float = 1.0
    """Share of the rate of single products that a whole step of them sustains, on devices without power
    constants, which would say how far their limit lowers the clock."""
    units: dict[str, UnitText] = {}
    """The units inside, by name; nodes that name none run at the rates of `peak`."""
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
    units: dict[str, Unit] = {}
    host_bandwidth: float = 0.0

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def energy_gap(self) -> str:
        """What energies of this device leave out, as a sentence; "" where they are whole."""
        if not self.power:
            return f"device {self.name} has no power, so what it takes is not known"
        if not self.idle_power:
            return (
                f"device {self.name} has no idle_power: what it draws while it waits counts as 0 W"
            )
        return ""

    def peak_rate(self, dtype: str) -> float:
        """The peak rate for a dtype; where the device has none, that of a type models usually work in."""
        rate = figure_for(self.peak, dtype)
        if rate is not None:
            return rate
        return self.peak.get(self._usual_type, 0.0)

    def rate_gap(self, dtype: str) -> str:
        """Whose rate products of a dtype get for want of their own, as a sentence; "" where there is one."""
        if not self.peak or figure_for(self.peak, dtype) is not None:
            return ""
        return (
            f"device {self.name} states no rate for {dtype_name(dtype)}: its products are given that of "
            f"{self._usual_type}; add it to `peak` in a machine file"
        )

    @property
    def _usual_type(self) -> str:
        """The type whose rate stands for those that the device does not state."""
        usual = [name for name in get_args(WorkingType) if name in self.peak]
        return usual[0] if usual else max(self.peak, key=self.peak.__getitem__, default="")


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
        host_bandwidth=parse(text.host_bandwidth, "bandwidth", f"{where}.host_bandwidth"),
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
        units=read_units(text.units, f"{where}.units"),
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
