"""Power: what a device draws by class of work and clock, and the clock its limit leaves.

A device draws its idle power always, the power of its clocks while a program holds it, an energy per
operation of its product units, per byte that passes its caches and per byte of memory, and a power of its
vector units while they, and not memory, limit a kernel. Energies of the chip go with the square of its
supply voltage, which falls with the clock down to a knee; memory keeps its own clock.
"""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.errors import ConfigError
from chakrakit.operators import figure_for

PICO = 1e-12
_FINEST = 1e-4


class PowerConstants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of a device's power, all at its highest clock."""

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
    """Operations that touch less find it in the last cache, where what came before left it."""
    vector_watts: float = 0.0
    """Of kernels without products, in so far as memory does not limit them."""
    attention: float = 1.0
    """What a FLOP of attention takes against one of a product, softmax included."""
    voltage: float = 1.0
    """The lowest supply voltage over that at the highest clock."""
    knee_mhz: float = 0.0
    """Below this clock the voltage stays as it is."""
    memory_clock_mhz: float = 0.0
    """Below this clock the chip cannot ask memory for its full bandwidth."""
    limit_share: float = 1.0
    """The mean power of a device that its limit holds back, over that limit."""
    timed_share: float = 1.0
    """Products timed one by one, as profiles have them, run no faster than sustained ones do at this share of
    the highest clock: a lower clock makes them slower only below it."""

    def product(self, dtype: str) -> float:
        """Picojoules per FLOP in an element type; of one that nobody measured, what bf16 takes."""
        own = figure_for(self.product_pj, dtype)
        return self.product_pj.get("bf16", 0.0) if own is None else own


def check_power(constants: PowerConstants, where: str) -> None:
    """An error where a number cannot be."""
    c = constants
    if not 0 < c.least_clock_mhz <= c.clock_mhz < float("inf"):
        raise ConfigError(
            f"{where}: clocks from {c.least_clock_mhz} to {c.clock_mhz} MHz; give 0 < least <= highest"
        )
    for name in ("voltage", "limit_share", "timed_share"):
        if not 0 < getattr(c, name) <= 1:
            raise ConfigError(f"{where}.{name}: {getattr(c, name)} is not in (0, 1]")
    rest = {f"product_pj.{k}": v for k, v in c.product_pj.items()}
    names = ("clock_watts", "memory_pj", "cache_pj", "cache_bytes", "vector_watts", "attention")
    rest |= {n: getattr(c, n) for n in (*names, "knee_mhz", "memory_clock_mhz")}
    for name, value in rest.items():
        if not 0 <= value < float("inf"):
            raise ConfigError(f"{where}.{name}: {value} is not 0 or more")


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """Work to be paid for, one entry per row: seconds at the highest clock and energies."""

    seconds: F64
    chip_joules: F64
    """At the highest clock; goes with the square of the voltage."""
    memory_joules: F64
    follows_clock: Mask
    """Whether the chip, and not its memory, limits the row."""
    timed_one_by_one: Mask
    """Whether `seconds` are a profile's for a product, see `PowerConstants.timed_share`."""


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
        """The supply voltage over that at the highest clock: a straight line from the knee up."""
        c = self.constants
        if c.knee_mhz >= c.clock_mhz:
            return 1.0
        along = (self.clock_mhz - c.knee_mhz) / (c.clock_mhz - c.knee_mhz)
        return c.voltage + (1 - c.voltage) * max(0.0, along)

    @property
    def clock_watts(self) -> float:
        """What the clocks draw by themselves."""
        return self.constants.clock_watts * self.share * self.voltage**2

    def stretch(self, activity: Activity) -> F64:
        """By what factor each row takes longer than at the highest clock."""
        slow = max(1.0, self.constants.memory_clock_mhz / self.clock_mhz)
        late = max(1.0, self.constants.timed_share / self.share)
        follows = np.where(activity.timed_one_by_one, late, 1 / self.share)
        return np.where(activity.follows_clock, follows, slow)

    def joules(self, activity: Activity) -> F64:
        """The energy of each row beyond what the device draws anyway."""
        return activity.chip_joules * self.voltage**2 + activity.memory_joules

    def mean_watts(self, activity: Activity, idle_watts: float, waits: float) -> float:
        """With rows one after another, and seconds in which none runs."""
        seconds = float((activity.seconds * self.stretch(activity)).sum()) + waits
        work = float(self.joules(activity).sum()) / seconds if seconds else 0.0
        return idle_watts + self.clock_watts + work


def held_back(
    constants: PowerConstants, activity: Activity, idle_watts: float, limit: float, waits: float
) -> Draw:
    """The highest clock at which the mean power stays below the limit.

    `waits` are seconds in which no row runs, whatever the clock: what a device does not draw then, it may
    draw while it works. Power grows with the clock, so the clock is found by halving.
    """

    def mean(share: float) -> float:
        return Draw(constants=constants, share=share).mean_watts(activity, idle_watts, waits)

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
