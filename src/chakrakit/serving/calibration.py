"""Constants of an engine on a device: the shares of the device's rates that it reaches, and its own time.

There is one set for each pair of device and engine, fitted to published end-to-end figures (see
`constants.json` and docs/serving.md). They turn the roofline of a data sheet into that of a real system.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from chakrakit.machines.device import Device


class Constants(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the device's rates for matmuls and for attention; times of the engine itself."""

    compute_efficiency: float
    memory_efficiency: float
    kernel_overhead_us: float
    attention_compute_efficiency: float
    attention_memory_efficiency: float
    serial_ms: float
    """Added to every step."""
    serial_per_request_ms: float
    """Added to every step for each request in it."""
    frontend_ms: float
    """Between a request's arrival and its place in the queue."""

    def on(self, device: Device) -> Device:
        """The device with the rates that matmuls and elementwise operators reach."""
        return msgspec.structs.replace(
            device,
            compute_efficiency=self.compute_efficiency,
            memory_efficiency=self.memory_efficiency,
            kernel_overhead=self.kernel_overhead_us * 1e-6,
        )


class _File(msgspec.Struct):
    fitted_on: str
    systems: dict[str, dict[str, Constants]]


@cache
def _fitted_systems() -> dict[str, dict[str, Constants]]:
    data = Path(__file__).with_name("constants.json").read_bytes()
    return msgspec.json.decode(data, type=_File).systems


def constants_of(device: str, engine: str) -> Constants | None:
    """The constants of an engine on a device; None where they were not fitted."""
    return _fitted_systems().get(device, {}).get(engine)
