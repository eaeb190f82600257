"""Clocks that were asked for: locked ones, for all work or by phase, and a lower power limit.

A locked clock is the highest that a phase runs at; the power limit can lower it further. Work of the host
keeps its time, so that a device that waits for it draws little power at any clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.power import Activity, Draw, PowerConstants, only
from chakrakit.trace.model import Trace

EVERY_PHASE = ""
"""The phase of a clock that holds for all work which has none of its own."""
PART_OF = {"weight": "backward", "recompute": "backward"}
"""Phases inside the pass of another, whose clock they have unless they are given one of their own."""


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """A device whose clock changes from phase to phase: a `Draw` for each phase of a trace's rows."""

    phases: tuple[Draw, ...]
    of_row: I64
    """The phase of each row."""
    weight: F64
    """The seconds that the rows of each phase take at the highest clock."""

    @property
    def constants(self) -> PowerConstants:
        """The constants of the device."""
        return self.phases[0].constants

    @property
    def share(self) -> float:
        """The lowest clock, as a share of the highest."""
        return min(draw.share for draw, weight in self._working)

    @property
    def clock_mhz(self) -> float:
        """The lowest clock in MHz."""
        return self.share * self.constants.clock_mhz

    @property
    def highest_clock_mhz(self) -> float:
        """The highest clock in MHz of a phase that does any work."""
        return max(draw.clock_mhz for draw, weight in self._working)

    @property
    def clock_watts(self) -> float:
        """The mean power of the clocks themselves."""
        return sum(d.clock_watts * w for d, w in self._working) / sum(w for _, w in self._working)

    @property
    def _working(self) -> list[tuple[Draw, float]]:
        pairs = list(zip(self.phases, self.weight.tolist(), strict=True))
        return [pair for pair in pairs if pair[1]] or [(draw, 1.0) for draw, _ in pairs]

    def stretch(self, activity: Activity) -> F64:
        """The time of each row, as a multiple of that at the highest clock."""
        return self._by_row(lambda draw, rows: draw.stretch(rows), activity)

    def joules(self, activity: Activity) -> F64:
        """The energy of each row on top of idle power and the power of the clocks."""
        return self._by_row(lambda draw, rows: draw.joules(rows), activity)

    def _by_row(self, figure: Callable[[Draw, Activity], F64], activity: Activity) -> F64:
        out = np.zeros(len(self.of_row))
        for number, draw in enumerate(self.phases):
            rows = self.of_row == number
            out[rows] = figure(draw, only(activity, rows))
        return out


@dataclass(frozen=True)
class Clocks:
    """The clocks that a user asks for; without any, devices run as fast as their power limit lets them."""

    mhz: Mapping[str, float] = field(default_factory=dict)
    """By phase; EVERY_PHASE for the others."""
    cap_watts: float | None = None

    def __bool__(self) -> bool:
        return bool(self.mhz) or self.cap_watts is not None

    def capped(self, device: Device) -> Device:
        """The device with the lower of its own power limit and this one."""
        if self.cap_watts is None:
            return device
        if self.cap_watts <= device.idle_power:
            raise ConfigError(
                f"--power-cap {self.cap_watts:g}: {device.name} draws {device.idle_power:g} W idle; give more"
            )
        limit = min(self.cap_watts, device.power) if device.power else self.cap_watts
        return msgspec.structs.replace(device, power=limit)

    def cap_notes(self, devices: Iterable[Device]) -> list[str]:
        """Says of which devices the own limit is no higher than this one, which changes nothing there."""
        own = {d.name: d.power for d in devices if d.power}
        return [
            f"warning: --power-cap {self.cap_watts:g} changes nothing on {name}: its own limit is {watts:g} W"
            for name, watts in own.items()
            if self.cap_watts is not None and self.cap_watts >= watts
        ]

    def share(self, phase: str, constants: PowerConstants, device: str) -> float:
        """The locked clock of a phase as a share of the device's highest; 1 where it is not locked."""
        around = PART_OF.get(phase, phase)
        mhz = next(
            (self.mhz[p] for p in (phase, around, EVERY_PHASE) if p in self.mhz),
            constants.clock_mhz,
        )
        if not constants.least_clock_mhz <= mhz <= constants.clock_mhz:
            raise ConfigError(
                f"--clock {mhz:g}: {device} runs at {constants.least_clock_mhz:g} to "
                f"{constants.clock_mhz:g} MHz"
            )
        return mhz / constants.clock_mhz

    def check_constants(self, device: Device) -> None:
        """Raises an error where clocks or a limit were asked for and nothing is known of the device's."""
        if self and device.dynamic is None:
            raise ConfigError(
                f"device {device.name!r} has no power constants, which a clock or a power limit needs; "
                "describe them under `dynamic`, as dgx-h200 does"
            )

    def check_phases(self, known: set[str], otherwise: str = "the traces have none") -> None:
        """Raises an error for a phase that is not known; `otherwise` says why none is."""
        for phase in self.mhz:
            if phase != EVERY_PHASE and phase not in known:
                there_are = nearest(phase, sorted(known)) if known else otherwise
                raise ConfigError(f"--clock {phase}=…: no such phase; {there_are}")

    @property
    def by_phase(self) -> bool:
        """Whether any phase has a clock of its own."""
        return bool(set(self.mhz) - {EVERY_PHASE})

    def at_one(self, device: Device) -> Callable[[float], Draw | Draws]:
        """The function of `at` without the clocks of phases."""
        constants = device.dynamic
        assert constants is not None
        most = self.share(EVERY_PHASE, constants, device.name)
        return lambda share: Draw(constants=constants, share=min(share, most))

    def at(self, trace: Trace, device: Device, seconds: F64) -> Callable[[float], Draw | Draws]:
        """A function that gives the device at no more than a share of its highest clock."""
        if not self.by_phase:
            return self.at_one(device)
        constants = device.dynamic
        assert constants is not None
        codes, names = trace.texts("phase")
        shares = [self.share(name, constants, device.name) for name in [*names, EVERY_PHASE]]
        of_row = np.where(codes < 0, len(names), codes).astype(np.int64)
        weight = np.bincount(of_row, seconds, len(shares)).astype(np.float64)
        return lambda share: Draws(
            phases=tuple(Draw(constants=constants, share=min(share, most)) for most in shares),
            of_row=of_row,
            weight=weight,
        )


def clocked(device: Device, share: float, sustained: bool = False) -> Device:
    """The device at a share of its highest clock: its rates, and memory where the chip cannot keep up.

    Rates of `sustained` work, as profiles and fits of engines have them, fall below `timed_share` alone.
    """
    if share == 1.0 or device.dynamic is None:
        return device
    rate_share = min(1.0, share / device.dynamic.timed_share) if sustained else share
    slow = device.dynamic.memory_stretch(share * device.dynamic.clock_mhz)
    return msgspec.structs.replace(
        device,
        peak={dtype: rate * rate_share for dtype, rate in device.peak.items()},
        memory_bandwidth=device.memory_bandwidth / slow,
    )


def clocks_of(clock: Any, cap_watts: float | None) -> Clocks:
    """The clocks of `clock`, MHz by phase or a list of one figure for all work, and `power_cap`."""
    by_phase = dict(clock if isinstance(clock, Mapping) else [(EVERY_PHASE, f) for f in clock])
    if len(by_phase) < len(clock):
        raise ConfigError(
            "--clock: all work has one clock; give one figure, or PHASE=MHZ for each phase"
        )
    for phase, mhz in by_phase.items():
        if not 0 < mhz < float("inf"):
            raise ConfigError(f"--clock {phase or mhz}: {mhz:g} MHz; give more than 0")
    if cap_watts is not None and not 0 < cap_watts < float("inf"):
        raise ConfigError(f"--power-cap {cap_watts:g}: give more than 0 watts")
    return Clocks(by_phase, cap_watts)


def read_clocks(texts: tuple[str, ...]) -> dict[str, float]:
    """`["1410"]`, or `["prefill=1980", "decode=1200"]`, as MHz by phase."""
    by_phase = {}
    for text in texts:
        phase, _, mhz = text.rpartition("=")
        if phase in by_phase:
            raise ValueError(f"{phase or 'all work'} has another clock already; give one")
        try:
            by_phase[phase] = float(mhz)
        except ValueError:
            raise ValueError("write it as MHZ or PHASE=MHZ") from None
    return by_phase
