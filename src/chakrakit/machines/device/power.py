"""Power: what a device draws by class of work and clock, and the clock its limit leaves.

A device draws its idle power always, its active power while anything runs, an energy per operation in its
product units, per byte from memory, and per byte that vector units handle. Energies of the chip go with the
square of its supply voltage, which falls with the clock; memory keeps its own clock.
"""

from __future__ import annotations

import msgspec

from chakrakit.arrays import F64, Mask
from chakrakit.errors import ConfigError

PICO = 1e-12
_FINEST = 1e-4


class PowerConstants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of a device's power, all at its highest clock."""

    clock_mhz: float
    """The highest clock."""
    least_clock_mhz: float
    active_watts: float
    """On top of idle power while anything runs."""
    product_pj: dict[str, float]
    """Per FLOP of matrix products, convolutions and attention, by element type."""
    memory_pj: float
    """Per byte from or to memory."""
    vector_pj: float = 0.0
    """Per byte that element-wise kernels, normalisations and the like handle, on top of memory's."""
    attention: float = 1.0
    """What a FLOP of attention takes against one of a product, softmax included."""
    voltage: float = 1.0
    """The supply voltage at the lowest clock over that at the highest."""
    limit_share: float = 1.0
    """Where the limit is held: the mean power of a device held back over its limit."""


def check_power(constants: PowerConstants, where: str) -> None:
    """An error where a number cannot be."""
    c = constants
    if not 0 < c.least_clock_mhz <= c.clock_mhz < float("inf"):
        raise ConfigError(
            f"{where}: clocks from {c.least_clock_mhz} to {c.clock_mhz} MHz; give 0 < least <= highest"
        )
    for name in ("voltage", "limit_share"):
        if not 0 < getattr(c, name) <= 1:
            raise ConfigError(f"{where}.{name}: {getattr(c, name)} is not in (0, 1]")
    rest = {f"product_pj.{k}": v for k, v in c.product_pj.items()}
    rest |= {n: getattr(c, n) for n in ("active_watts", "memory_pj", "vector_pj", "attention")}
    for name, value in rest.items():
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{name}: {value} is not 0 or more")


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """Work to be paid for, one entry per row: seconds at the highest clock and energies."""

    seconds: F64
    chip_joules: F64
    """At the highest clock; goes with the square of the voltage."""
    memory_joules: F64
    follows_clock: F64
    """The share of the seconds that goes with the clock: 1 for what the chip limits, 0 for memory."""


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """A device at one clock: how it slows rows down, and what it draws."""

    constants: PowerConstants
    share: float = 1.0
    """The clock over the highest."""

    @property
    def clock_mhz(self) -> float:
        """The clock."""
        return self.share * self.constants.clock_mhz

    @property
    def voltage(self) -> float:
        """The supply voltage over that at the highest clock; a straight line between the ends."""
        least = self.constants.least_clock_mhz / self.constants.clock_mhz
        along = (self.share - least) / (1 - least) if least < 1 else 1.0
        return self.constants.voltage + (1 - self.constants.voltage) * max(0.0, min(1.0, along))

    @property
    def active_watts(self) -> float:
        """On top of idle power while anything runs: the clock's own power."""
        return self.constants.active_watts * self.share * self.voltage**2

    def stretch(self, activity: Activity) -> F64:
        """By what factor each row takes longer than at the highest clock."""
        return 1 + activity.follows_clock * (1 / self.share - 1)

    def joules(self, activity: Activity) -> F64:
        """The energy of each row beyond active and idle power."""
        return activity.chip_joules * self.voltage**2 + activity.memory_joules

    def busy_watts(self, activity: Activity, idle_watts: float) -> float:
        """The mean while one row follows another."""
        seconds = float((activity.seconds * self.stretch(activity)).sum())
        if not seconds:
            return idle_watts
        return idle_watts + self.active_watts + float(self.joules(activity).sum()) / seconds


def held_back(
    constants: PowerConstants, activity: Activity, idle_watts: float, limit: float, busy: float
) -> Draw:
    """The highest clock at which the mean power stays below the limit.

    `busy` is the share of the time in which rows run; the device idles in the rest. Power grows with the
    clock, so the clock is found by halving.
    """

    def mean(share: float) -> float:
        draw = Draw(constants=constants, share=share)
        return idle_watts + busy * (draw.busy_watts(activity, idle_watts) - idle_watts)

    wanted = limit * constants.limit_share
    if not limit or mean(1.0) <= wanted:
        return Draw(constants=constants)
    low, high = constants.least_clock_mhz / constants.clock_mhz, 1.0
    while high - low > _FINEST:
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) <= wanted else (low, middle)
    return Draw(constants=constants, share=low)


def only(activity: Activity, rows: Mask) -> Activity:
    """Some of the rows."""
    return Activity(**{name: getattr(activity, name)[rows] for name in Activity.__struct_fields__})
