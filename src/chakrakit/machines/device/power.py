"""The power of a device by class of work and clock, and the highest clock within its power limit.

A device always draws its idle power. While a program holds it, it also draws the power of its clocks. Work
adds an energy per operation of the product units, per byte that passes the caches and per byte of memory,
and the power of the vector units while they, and not memory, limit a kernel. Energies of the chip are
proportional to the square of its supply voltage, which falls with the clock down to a knee; memory keeps
its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.errors import ConfigError
from chakrakit.operators import figure_for

PICO = 1e-12
"""Seconds per picosecond, and joules per picojoule."""
_FINEST = 1e-4
"""Share of the highest clock at which the search for a clock stops: 0.2 MHz, finer than devices' steps."""


LATENCY = 0.25
"""The share of a kernel's time beyond what its bytes take that no clock changes: the latency of memory. Of an
H200's 38 kernels that memory or latency limits, at six locked clocks from 810 to 1,680 MHz, this is the share
that leaves least (5.3 % on average, 8.0 where kernels follow either memory or the clock)."""


def latency_stretch(share: float) -> float:
    """The time of kernels that latency limits, as a multiple of that at the highest clock."""
    return LATENCY + (1 - LATENCY) / share


class PowerConstants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The power constants of a device as its file gives them, all at its highest clock."""

    clock_mhz: float
    """The highest clock."""
    least_clock_mhz: float
    clock_watts: float
    """On top of idle power while a program holds the device, whatever it does."""
    product_pj: dict[str, float]
    """Per FLOP of matrix products, convolutions and attention, by element type."""
    memory_pj: float
    """Per byte from or to memory."""
    cache_pj: float = 0.0
    """Per byte that passes the caches, from memory or not."""
    cache_bytes: float = 0.0
    """Operations that touch fewer bytes find them in the last cache, left there by the operation before."""
    vector_watts: float = 0.0
    """Power of kernels without matrix products, scaled by how far memory does not limit them."""
    attention: float = 1.0
    """Energy of a FLOP of attention, softmax included, relative to a FLOP of a matrix product."""
    voltage: float = 1.0
    """The lowest supply voltage, as a share of that at the highest clock."""
    knee_mhz: float = 0.0
    """The clock below which the voltage falls no further."""
    memory_clock_mhz: float = 0.0
    """The clock below which the chip cannot use the memory's full bandwidth."""
    memory_stop_mhz: float = 0.0
    """Below `memory_clock_mhz` the bandwidth falls along a line, which would reach 0 at this clock."""
    limit_share: float = 1.0
    """The mean power of a device whose limit lowers its clock, as a share of that limit."""
    timed_share: float = 1.0
    """Products timed one by one, as in profiles, are as slow as sustained ones at this share of the highest
    clock: only a clock below it makes them slower."""

    def product(self, dtype: str) -> float:
        """Picojoules per FLOP in an element type; those of bf16 for a type that was not measured."""
        picojoules = figure_for(self.product_pj, dtype)
        return self.product_pj.get("bf16", 0.0) if picojoules is None else picojoules

    def memory_stretch(self, clock_mhz: float) -> float:
        """The time of work that memory limits, as a multiple of that at the highest clock.

        No more than that of work which follows the clock: the line was measured far above the least clock.
        """
        stop = self.memory_stop_mhz
        along = (self.memory_clock_mhz - stop) / (clock_mhz - stop)
        return max(1.0, min(along, self.clock_mhz / clock_mhz))


def check_power(constants: PowerConstants, where: str) -> None:
    """Raises an error where a constant is impossible."""
    c = constants
    if not 0 < c.least_clock_mhz <= c.clock_mhz < float("inf"):
        raise ConfigError(
            f"{where}: clocks from {c.least_clock_mhz} to {c.clock_mhz} MHz; give 0 < least <= highest"
        )
    if c.memory_stop_mhz >= c.least_clock_mhz:
        raise ConfigError(
            f"{where}.memory_stop_mhz: {c.memory_stop_mhz} is not below the least clock, {c.least_clock_mhz}"
        )
    for name in ("voltage", "limit_share", "timed_share"):
        if not 0 < getattr(c, name) <= 1:
            raise ConfigError(f"{where}.{name}: {getattr(c, name)} is not in (0, 1]")
    rest = {f"product_pj.{k}": v for k, v in c.product_pj.items()}
    names = ("clock_watts", "memory_pj", "cache_pj", "cache_bytes", "vector_watts", "attention")
    rest |= {n: getattr(c, n) for n in (*names, "knee_mhz", "memory_clock_mhz", "memory_stop_mhz")}
    for name, value in rest.items():
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{name}: {value} is not 0 or more")


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """Work that takes energy, one entry per row: seconds at the highest clock, and joules."""

    seconds: F64
    chip_joules: F64
    """At the highest clock; proportional to the square of the voltage."""
    memory_joules: F64
    at_memory: F64
    """The share of the row's seconds that its bytes take at the memory's bandwidth; 0 where products hide
    them."""
    at_chip: F64
    """The share that follows the clock; what is left are latencies that nothing changes."""
    timed_one_by_one: Mask
    """Whether `seconds` are a profile's for a product that the chip limits, see
    `PowerConstants.timed_share`."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """A device at one clock: how much it slows rows down, and the power it draws."""

    constants: PowerConstants
    share: float = 1.0
    """The clock as a share of the highest."""

    @property
    def clock_mhz(self) -> float:
        """The clock in MHz."""
        return self.share * self.constants.clock_mhz

    @property
    def highest_clock_mhz(self) -> float:
        """The same: the device has one clock."""
        return self.clock_mhz

    @property
    def voltage(self) -> float:
        """The voltage as a share of that at the highest clock: constant below the knee, then linear."""
        c = self.constants
        if c.knee_mhz >= c.clock_mhz:
            return 1.0
        along = (self.clock_mhz - c.knee_mhz) / (c.clock_mhz - c.knee_mhz)
        return c.voltage + (1 - c.voltage) * max(0.0, along)

    @property
    def clock_watts(self) -> float:
        """The power of the clocks themselves."""
        return self.constants.clock_watts * self.share * self.voltage**2

    def stretch(self, activity: Activity) -> F64:
        """The time of each row, as a multiple of that at the highest clock."""
        slow = self.constants.memory_stretch(self.clock_mhz)
        late = max(1.0, self.constants.timed_share / self.share)
        follows = np.where(activity.timed_one_by_one, late, 1 / self.share)
        memory, chip = activity.at_memory, activity.at_chip
        return np.asarray(memory * slow + chip * follows + (1 - memory - chip))

    def joules(self, activity: Activity) -> F64:
        """The energy of each row on top of idle power and the power of the clocks."""
        return activity.chip_joules * self.voltage**2 + activity.memory_joules

    def mean_watts(self, activity: Activity, idle_watts: float, waits: float) -> float:
        """Mean power while the rows run one after another, and for `waits` seconds none runs."""
        return mean_watts(self, activity, idle_watts, waits)


class Drawing(Protocol):
    """A device at a clock, or at several: how much it slows rows down, and what they draw."""

    @property
    def clock_watts(self) -> float:
        """The power of the clocks themselves."""

    def stretch(self, activity: Activity) -> F64:
        """The time of each row, as a multiple of that at the highest clock."""

    def joules(self, activity: Activity) -> F64:
        """The energy of each row on top of idle power and the power of the clocks."""


def mean_watts(draw: Drawing, activity: Activity, idle_watts: float, waits: float) -> float:
    """Mean power while the rows run one after another, and for `waits` seconds none runs."""
    seconds = float((activity.seconds * draw.stretch(activity)).sum()) + waits
    work = float(draw.joules(activity).sum()) / seconds if seconds else 0.0
    return idle_watts + draw.clock_watts + work


def clock_within(
    constants: PowerConstants, activity: Activity, idle_watts: float, limit: float, waits: float
) -> Draw:
    """The highest clock at which the mean power stays below the limit.

    `waits` are seconds in which no row runs, whatever the clock: the power that the device does not draw
    then is available while it works.
    """

    def watts(share: float) -> float:
        return Draw(constants=constants, share=share).mean_watts(activity, idle_watts, waits)

    return Draw(constants=constants, share=highest_share(constants, watts, limit))


def highest_share(
    constants: PowerConstants, watts: Callable[[float], float], limit: float
) -> float:
    """The highest clock, as a share, whose mean watts stay below a limit; 1 without one (0).

    Power grows with the clock, so the clock is found by bisection.
    """
    allowed_watts = limit * constants.limit_share
    if not limit or watts(1.0) <= allowed_watts:
        return 1.0
    low, high = constants.least_clock_mhz / constants.clock_mhz, 1.0
    while high - low > _FINEST:
        middle = (low + high) / 2
        low, high = (middle, high) if watts(middle) <= allowed_watts else (low, middle)
    return low


def only(activity: Activity, rows: Mask) -> Activity:
    """The activity of the selected rows."""
    return Activity(**{name: getattr(activity, name)[rows] for name in Activity.__struct_fields__})


def zeroed(activity: Activity, rows: Mask) -> Activity:
    """The activity in which these rows take neither time nor energy."""
    changed = {n: np.where(rows, 0.0, getattr(activity, n)) for n in ("seconds", "chip_joules")}
    memory = np.where(rows, 0.0, activity.memory_joules)
    return msgspec.structs.replace(activity, **changed, memory_joules=memory)
