"""What study files share: the time a simulation takes, and machines whose constants are not quite certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from chakrakit.machines.device import Device, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import Algorithms
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

UNSURE = 0.05
"""How far the constants of a machine may be off: the standard deviation of their logarithm. Data sheets and
measured bandwidths of the presets differ by about this much (docs/accuracy.md)."""


def unsure(machine: Machine, seed: int, by: float = UNSURE) -> Machine:
    """The machine with other constants, drawn by the seed: what nobody knows exactly.

    Links, memory and arithmetic get faster or slower, each by a factor of its own. A gain that is there with
    all draws does not hang on one of them.
    """
    link, latency, rate, memory = np.exp(by * np.random.default_rng([seed, 7]).standard_normal(4))
    links = replace(
        machine.links,
        bandwidth=machine.links.bandwidth * link,
        latency=machine.links.latency * latency,
    )
    devices = tuple(_changed(device, rate, memory) for device in machine.devices)
    return replace(machine, changed_links=links, devices=devices)


def _changed(device: Device, rate: float, memory: float) -> Device:
    return msgspec.structs.replace(
        device,
        peak={dtype: peak * rate for dtype, peak in device.peak.items()},
        memory_bandwidth=device.memory_bandwidth * memory,
    )


def kernel(
    t: TraceBuilder, name: str, flops: float, moved: float, dtype: str, after: Sequence[int] = ()
) -> int:
    """A kernel on the compute stream that a roofline times: FLOPs, bytes moved, and when it may start."""
    return t.comp(
        name,
        num_ops=int(flops),
        tensor_size=int(moved),
        dtype=dtype,
        op_type="matmul",
        stream=0,
        deps=after,
    )


def seconds_of(
    traces: TraceSet,
    machine: Machine,
    compute: str = "roofline",
    algorithms: dict[str, str] | None = None,
    **options: Any,
) -> float:
    """Seconds until all is done; `compute` as for `ck.simulate`."""
    chosen = SimulationOptions(
        work=work_model(compute), algorithms=Algorithms(algorithms or {}), **options
    )
    return run(traces, machine, chosen).makespan_ps * 1e-12
