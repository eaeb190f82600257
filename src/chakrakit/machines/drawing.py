"""Machines as reports and as text drawings."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.machines.device import show_bandwidth, show_time
from chakrakit.machines.fabric import Machine
from chakrakit.machines.load import load_machine, preset_names
from chakrakit.results import Result


class Preset(Result, msgspec.Struct, kw_only=True):
    """The main figures of one machine that comes with the package."""

    name: str
    device: str
    devices: int
    dimensions: str
    bf16_tflops: float
    memory_gb: int
    memory_gb_per_s: int


class DimensionReport(Result, msgspec.Struct, kw_only=True):
    """One dimension of a machine; bandwidths in bytes/s."""

    size: int
    topology: str
    joins: str
    copies: int
    reduction: bool
    bandwidths: list[float]


class DeviceReport(Result, msgspec.Struct, kw_only=True):
    """One kind of device in base units, with the sources of its numbers."""

    name: str
    count: int
    peak: dict[str, float]
    memory: float
    memory_bandwidth: float
    power: float
    """Its power limit, W."""
    idle_power: float
    price_per_hour: float
    """In US dollars; 0 where no price is given."""
    sources: dict[str, str]


class MachineReport(Result, msgspec.Struct, kw_only=True):
    """Everything about a machine, as data."""

    name: str
    devices: int
    vertices: int
    links: int
    dimensions: list[DimensionReport]
    device_kinds: list[DeviceReport]
    assumed: list[str] = []
    """What its file does not say and was assumed."""


class MachinesReport(Result, msgspec.Struct, kw_only=True, omit_defaults=True):
    """The presets, or the one machine that was asked for."""

    presets: list[Preset] = []
    machine: MachineReport | None = None


def overview() -> list[Preset]:
    """One row per preset."""
    return [_preset(name) for name in preset_names()]


def _preset(name: str) -> Preset:
    m = load_machine(name)
    d = m.devices[0]
    return Preset(
        name=name,
        device=d.name,
        devices=m.size,
        dimensions=" × ".join(f"{x.fabric.shape} {x.size}" for x in m.dimensions if x.size > 1),
        bf16_tflops=round(d.peak_rate("bf16") / 1e12, 1),
        memory_gb=round(d.memory / 1e9),
        memory_gb_per_s=round(d.memory_bandwidth / 1e9),
    )


def describe(machine: Machine) -> MachineReport:
    """Everything about a machine, as data."""
    kinds = [
        DeviceReport(
            name=d.name,
            count=int((machine.device_of == i).sum()),
            peak=d.peak,
            memory=d.memory,
            memory_bandwidth=d.memory_bandwidth,
            power=d.power,
            idle_power=d.idle_power,
            price_per_hour=d.price_per_hour,
            sources=d.sources,
        )
        for i, d in enumerate(machine.devices)
    ]
    dimensions = [
        DimensionReport(
            size=d.size,
            topology=d.fabric.shape,
            joins=d.joins,
            copies=machine.instances(k),
            reduction=d.reduction,
            bandwidths=_bandwidths(machine, k),
        )
        for k, d in enumerate(machine.dimensions)
    ]
    return MachineReport(
        name=machine.name,
        devices=machine.size,
        vertices=machine.vertices,
        links=len(machine.links),
        dimensions=dimensions,
        device_kinds=kinds,
        assumed=list(machine.assumed),
    )


def _bandwidths(machine: Machine, k: int) -> list[float]:
    first, last = machine.first_link[k : k + 2]
    return [float(b) for b in np.unique(machine.links.bandwidth[first:last])]


def draw(machine: Machine) -> str:
    """A drawing in text: the devices, then every dimension from the inside out."""
    lines = [f"{machine.name}: {machine.size:,} devices, {len(machine.links):,} links one way"]
    for i, d in enumerate(machine.devices):
        count = int((machine.device_of == i).sum())
        if count:
            rate = f", {d.peak_rate('bf16') / 1e12:g} TFLOP/s bf16" if d.peak else ""
            memory = (
                f", {d.memory / 1e9:.4g} GB at {show_bandwidth(d.memory_bandwidth)}"
                if d.memory
                else ""
            )
            lines.append(f"  {count:,} × {d.name}{rate}{memory}")
    for k, dimension in enumerate(machine.dimensions):
        if dimension.size > 1:
            lines.append("  " * (k + 1) + "└─ " + _dimension(machine, k))
    lines += [f"  assumed: {sentence}" for sentence in machine.assumed]
    return "\n".join([*lines, *_picture(machine)])


def _dimension(machine: Machine, k: int) -> str:
    d = machine.dimensions[k]
    first, last = machine.first_link[k : k + 2]
    widths = " and ".join(show_bandwidth(b) for b in _bandwidths(machine, k)[::-1])
    late = show_time(float(machine.links.latency[first:last].max(initial=0.0)))
    copies = f"{machine.instances(k):,} × " if machine.instances(k) > 1 else ""
    how = {"rails": "", "flat": ", every device on it", "gateways": ", one gateway per group"}[
        d.joins
    ]
    reduces = ", reduces in the switch" if d.reduction else ""
    return f"{copies}{d.fabric.shape} of {d.fabric.ports}: {widths} per link, {late}{how}{reduces}"


_MOST = 16
"""Devices that are drawn; more would not fit into a line of 80 characters."""


def _picture(machine: Machine) -> list[str]:
    """A drawing of the innermost dimension that has links, device by device."""
    inner = [d for d in machine.dimensions if d.size > 1]
    if not inner:
        return []
    shape, n = inner[0].fabric.shape, inner[0].fabric.ports
    marks = [f"[{i}]" for i in range(min(n, _MOST))] + (["…"] if n > _MOST else [])
    if shape in ("ring", "line"):
        back = [f"  └{'─' * (len('──'.join(marks)) - 2)}┘"] if shape == "ring" and n > 2 else []
        return ["", "  " + "──".join(marks), *back]
    if shape == "switch":
        bar = "═" * (sum(len(m) + 1 for m in marks) - 1)
        return [
            "",
            f"  ╞{bar}╡ switch",
            "   " + " ".join("│".center(len(m)) for m in marks),
            "   " + " ".join(marks),
        ]
    return ["", "   " + " ".join(marks) + ("  each linked to each" if shape == "full" else "")]
