"""What counted kernels leave of a claim: the least time that a stated device needs for operations and bytes.

Each kernel is a small NumPy implementation (`counted`), scaled to the size that is meant. A real kernel takes
longer; how much longer is nobody's claim here, and so the verdict is a bound.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.operators import Count
from chakrakit.published import seconds_of, unsure
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

DEVICES = {
    "CPU": (3.2e12, 307e9),
    "A100": (19.5e12, 1555e9),
    "H100": (67e12, 3350e9),
    "WSE-3": (2e15, 21e15),
    "Wormhole": (4e12, 288e9),
}
"""FP32 FLOP/s and bytes/s of memory, by data sheets: a socket of 32 cores with eight channels of DDR5-4800,
GPUs, a wafer (900,000 places, a multiply-add each in a cycle of 1.1 GHz, and its SRAM), and a Tenstorrent
n150."""


@cache
def site(name: str, seed: int) -> Machine:
    """A device by itself."""
    rate, bandwidth = DEVICES[name]
    device = {"name": name, "peak": {"fp32": rate}, "memory_bandwidth": bandwidth}
    level = {"topology": "switch", "size": 1, "bandwidth": 1e9}
    return unsure(machine({"device": device, "network": [level]}), seed)


def least_seconds(count: Count, device: str, seed: int, times: int = 1) -> float:
    """The least time of a counted kernel on a device, run so many times."""
    t = TraceBuilder()
    last: list[int] = []
    for _ in range(times):
        last = [t.comp("kernel", **count.node(), dtype="fp32", deps=last)]
    return seconds_of(TraceSet.of(t), site(device, seed))
