"""What a search makes small: the time, the energy or the price of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chakrakit.errors import ConfigError
from chakrakit.machines.device import PICO, Device, Draw
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.results import SimulationSummary

Name = Literal["step", "energy", "price"]


@dataclass(frozen=True)
class Objective:
    """What is to be small, seconds, joules or money: of a simulated step, and at least of any other."""

    name: Name
    busy_watts: float
    """What a device draws at least while it computes."""
    idle_watts: float
    """What it draws at least while it does not."""
    price_per_hour: float

    def least(self, gpus: int, step_ps: float, compute_ps: float) -> float:
        """Below every step of at least this time and this computation, which is summed over the devices."""
        seconds, busy = step_ps * PICO, compute_ps * PICO
        if self.name == "energy":
            return busy * self.busy_watts + (gpus * seconds - busy) * self.idle_watts
        return self._of_time(gpus, seconds)

    def of(self, gpus: int, summary: SimulationSummary) -> float:
        """Of a simulated step."""
        if self.name == "energy" and summary.energy_joules is not None:
            return summary.energy_joules
        return self._of_time(gpus, summary.makespan_ns * 1e-9)

    def _of_time(self, gpus: int, seconds: float) -> float:
        return seconds if self.name == "step" else gpus * seconds * self.price_per_hour / 3600


def objective_of(name: Name, machine: Machine, price_per_hour: float | None) -> Objective:
    """The objective on a machine; a ConfigError if the machine does not know what it needs."""
    price = (
        min(d.price_per_hour for d in machine.devices) if price_per_hour is None else price_per_hour
    )
    if name == "energy" and not all(d.power for d in machine.devices):
        raise ConfigError(
            f"{machine.name} does not say what its devices draw; add `power: 700 W` (and `idle_power`) "
            "to the device in a machine file"
        )
    if name == "price" and not price > 0:
        raise ConfigError(
            f"{machine.name} does not say what its devices cost; give --price-per-hour, or add "
            "`price_per_hour` to the device in a machine file"
        )
    watts = [_least_watts(device) for device in machine.devices]
    return Objective(name, min(busy for busy, _ in watts), min(idle for _, idle in watts), price)


def _least_watts(device: Device) -> tuple[float, float]:
    """While it computes, and while it does not.

    A device of which more is known draws by its clock and its work: at least what its clocks draw at their
    lowest, since the work of a plan is only known once it is simulated.
    """
    if device.dynamic is None:
        return device.power, device.idle_power
    lowest = Draw(
        constants=device.dynamic, share=device.dynamic.least_clock_mhz / device.dynamic.clock_mhz
    )
    watts = device.idle_power + lowest.clock_watts
    return watts, watts
