"""Constants of an engine on a device: the shares of the device's rates that it reaches, and its own time.

There is one set for each pair of device and engine, fitted to published end-to-end figures (see
`constants.json` and docs/serving.md). They turn the roofline of a data sheet into that of a real system. A
device without a set of its own takes that of the nearest device that has one, by peak rate and bandwidth.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import msgspec

from chakrakit.machines.device import Device

FITTED_TO = "fitted to published runs"
"""What the source of step times says where constants of an engine are used."""


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shares of the device's rates for products, experts and attention; times of the engine itself."""

    compute_efficiency: float
    memory_efficiency: float
    kernel_overhead_us: float
    """Added to every kernel."""
    attention_compute_efficiency: float
    attention_memory_efficiency: float
    attention_overhead_us: float
    """Added to the attention of every layer."""
    cache8_efficiency: float = 1.0
    """Share of attention's bandwidth that is reached when the cache has one byte for each number."""
    expert_compute_efficiency: float
    expert_memory_efficiency: float
    expert_overhead_us: float
    """Added to every product of experts."""
    serial_ms: float
    """Added to every step."""
    serial_per_request_ms: float
    """Added to every step for each request in it."""
    prompt_kernel_us: float = 0.0
    """What the host takes to launch a kernel of a step with a prompt, which is in no graph."""
    prompt_expert_us: float = 0.0
    """The same for a product of experts, which routing, sorting and scaling go with."""
    frontend_ms: float
    """Between a request's arrival and its place in the queue."""


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The runs that constants were fitted on: lowest and highest of each size, and kinds of model."""

    runs: int
    requests: tuple[int, int]
    """Requests at a time on one engine, or on each rank of it that has its own."""
    prompt: tuple[int, int]
    output: tuple[int, int]
    tp: tuple[int, int]
    attention: list[str]
    """`grouped-query`, `multi-head` or `latent`."""
    experts: bool
    precisions: list[str]
    """Of weights: `bf16`, `fp8`, `fp4`."""

    def beyond(self, run: Region) -> list[str]:
        """In what a run leaves this region, in words; sizes by more than a factor of two."""
        said = []
        for name, unit in _SIZES.items():
            low, high = getattr(self, name)
            least, most = getattr(run, name)
            if least * 2 < low or most > 2 * high:
                shown = f"{least:,}" if least == most else f"{least:,} to {most:,}"
                said.append(f"{unit} {shown} (fitted on {low:,} to {high:,})")
        said += [f"{kind} attention" for kind in run.attention if kind not in self.attention]
        said += [f"{kind} weights" for kind in run.precisions if kind not in self.precisions]
        if run.experts and not self.experts:
            said.append("experts")
        return said


_SIZES = {
    "requests": "requests at a time",
    "prompt": "prompts of",
    "output": "outputs of",
    "tp": "tensor-parallel degree",
}


class Fitted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Constants, the device that they were fitted on, and the region in which they hold."""

    constants: Constants
    region: Region
    device: str = ""


class _Measured(msgspec.Struct):
    """A device with constants: its data sheet, by which others find the nearest, and engines."""

    peak: float
    memory_bandwidth: float
    engines: dict[str, Fitted]


class _File(msgspec.Struct):
    fitted_on: str
    devices: dict[str, _Measured]


@cache
def _fitted_devices() -> dict[str, _Measured]:
    data = Path(__file__).with_name("constants.json").read_bytes()
    return msgspec.json.decode(data, type=_File).devices


def constants_of(device: Device, engine: str) -> Fitted | None:
    """The constants of an engine on a device, or on the nearest one; None where nobody fitted the engine."""
    known = {n: d for n, d in _fitted_devices().items() if engine in d.engines}
    if device.name in known:
        name = device.name
    else:
        name = min(known, key=lambda n: _distance(known[n], device), default="")
        if not name or _distance(known[name], device) == math.inf:
            return None
    return msgspec.structs.replace(known[name].engines[engine], device=name)


def _distance(measured: _Measured, device: Device) -> float:
    """How far two data sheets are apart, in the logarithms of rate and bandwidth."""
    rate, bandwidth = device.peak_rate("bf16"), device.memory_bandwidth
    if not rate or not bandwidth:
        return math.inf
    return math.hypot(
        math.log(rate / measured.peak), math.log(bandwidth / measured.memory_bandwidth)
    )
