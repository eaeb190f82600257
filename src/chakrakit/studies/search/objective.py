"""What a search makes small: the time, the energy or the price of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine

Name = Literal["step", "energy", "price"]


@dataclass(frozen=True)
class Objective:
    """Turns a step's time and computation into what is to be small: seconds, joules, or money."""

    name: Name
    power: float
    idle_power: float
    price_per_hour: float

    def value(self, gpus: int, step_ps: float, compute_ps: float) -> float:
        """Of a step on so many devices; `compute_ps` is summed over them."""
        seconds, busy = step_ps * 1e-12, compute_ps * 1e-12
        if self.name == "energy":
            return busy * self.power + (gpus * seconds - busy) * self.idle_power
        if self.name == "price":
            return gpus * seconds * self.price_per_hour / 3600
        return seconds


def objective_of(name: Name, machine: Machine, price_per_hour: float | None) -> Objective:
    """The objective on a machine; a ConfigError if the machine does not know what it needs."""
    least = min(machine.devices, key=lambda d: d.power)
    price = (
        min(d.price_per_hour for d in machine.devices) if price_per_hour is None else price_per_hour
    )
    if name == "energy" and not least.power:
        raise ConfigError(
            f"{machine.name} does not say what its devices draw; add `power: 700 W` (and `idle_power`) "
            "to the device in a machine file"
        )
    if name == "price" and not price > 0:
        raise ConfigError(
            f"{machine.name} does not say what its devices cost; give --price-per-hour, or add "
            "`price_per_hour` to the device in a machine file"
        )
    return Objective(name, least.power, min(d.idle_power for d in machine.devices), price)
