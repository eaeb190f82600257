"""The time of a forward step of a model that is not over tokens: vision, diffusion, recommenders."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from chakrakit.machines.fabric import Machine
from chakrakit.operators import WorkingType
from chakrakit.simulator.results import simulate
from chakrakit.workloads.description import Model, Step, Workload
from chakrakit.workloads.generate import generate

PS = 1e-12


def forward_seconds(
    model: Model, machine: Machine, most: int, dtype: WorkingType = "bf16", compute: str = "auto"
) -> Callable[[int], float]:
    """Seconds of a forward step on one device by its number of samples.

    Steps of 1, 2, 4, … samples and of `most` are simulated, each when it is first needed; others lie between
    their neighbours.
    """
    sizes = sorted({min(2**i, most) for i in range(most.bit_length() + 1)})

    @cache
    def simulated(samples: int) -> float:
        step = Step(kind="forward", global_batch=samples, micro_batch=samples, dtype=dtype)
        traces = generate(Workload(model=model, step=step))
        return simulate(traces, machine, compute=compute).outcome.makespan_ps * PS

    @cache
    def seconds(samples: int) -> float:
        above = next(size for size in sizes if size >= samples)
        below = max(size for size in sizes if size <= samples)
        times = [simulated(size) for size in (below, above)]
        return float(np.interp(samples, [below, above], times))

    return seconds
