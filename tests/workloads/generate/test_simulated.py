"""Random plans run to the end as ASTRA-sim would run them: one communication at a time on each rank."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chakrakit.simulator import astra
from chakrakit.simulator.astra import make_config
from chakrakit.workloads.generate import generate
from support.random_plans import random_workload

SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "peak-perf": 300,
    "roofline-enabled": 1,
}


@pytest.mark.parametrize("block", range(5))
def test_runs_to_the_end(block: int) -> None:
    for number in range(10):
        workload = random_workload(Random(1000 + block * 10 + number))
        # it has no all-to-all of unequal parts
        traces = generate(workload.replace(step=workload.step.replace(imbalance=0.0)))
        if len(traces) == 1:
            continue
        network = {
            "topology": ["Switch"],
            "npus_count": [len(traces)],
            "bandwidth": [100.0],
            "latency": [500.0],
        }
        config = make_config(SYSTEM, network, {"memory-type": "NO_MEMORY_EXPANSION"})
        astra.simulate(traces, config)  # raises for a rank that never finishes
