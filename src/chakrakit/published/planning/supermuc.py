"""SuperMUC-NG Phase 2 as a machine, and steps of a model of 175 billion parameters on it."""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.device import work_model
from chakrakit.machines.fabric import Machine
from chakrakit.published import unsure
from chakrakit.simulator.engine import SimulationOptions, run
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import workload_of

TILES, SEQUENCE = 8, 2048
"""Tiles of a node (four cards of two), tokens of a sequence."""
PEAK = 419e12
"""bf16 FLOP/s of a tile of Intel's Max 1550, from its data sheet."""
PARAMETERS = 175e9


def site(nodes: int, efficiency: float, seed: int) -> Machine:
    """Nodes of eight tiles on a tree of 2 × 200 Gb/s a node."""
    device = {
        "name": "max-1550 tile",
        "peak": {"bf16": PEAK},
        "memory": "64 GB",
        "memory_bandwidth": "1.6 TB/s",
        "compute_efficiency": efficiency,
        "memory_efficiency": 0.6,
        "kernel_overhead": "10 us",
    }
    inside = {"topology": "switch", "size": TILES, "bandwidth": "60 GB/s", "latency": "2 us"}
    arity = [nodes] if nodes <= 32 else [32, nodes // 32]
    outside = {"topology": "fat-tree", "arity": arity, "bandwidth": "400 Gb/s", "latency": "3 us"}
    text = {
        "device": device,
        "network": [inside, {**outside, "joins": "gateways"}],
        "software": {"collective_overhead": "20 us"},
    }
    return unsure(machine(text), seed)


@cache
def workload(nodes: int, batch: int, tp: int, pp: int, data: str, layers: int) -> TraceSet:
    """A step of the model under a plan."""
    plan = {"tp": tp, "pp": pp, "dp": nodes * TILES // (tp * pp), "data": data}
    step = {"seq": SEQUENCE, "global_batch": batch, "micro_batch": 1, "recompute": "full"}
    pipeline = {"schedule": "1f1b"} if pp > 1 else {}
    return generate(workload_of(None, "gpt3-175b", {**plan, **step, **pipeline, "layers": layers}))


@cache
def step_seconds(
    nodes: int, batch: int, plan: tuple[int, int, str], layers: int, efficiency: float, seed: int
) -> float:
    """Of a step. With over 256 micro-batches the time of each further one is that of those before."""
    passes = batch * plan[0] * plan[1] // (nodes * TILES)  # micro-batches of a pipeline
    if passes > 256:
        sizes = [batch * 128 // passes, batch * 256 // passes]
        few, many = (step_seconds(nodes, b, plan, layers, efficiency, seed) for b in sizes)
        return many + (many - few) / (sizes[1] - sizes[0]) * (batch - sizes[1])
    traces = workload(nodes, batch, *plan, layers)
    options = SimulationOptions(work=work_model("roofline"))
    return run(traces, site(nodes, efficiency, seed), options).makespan_ps * 1e-12


@cache
def calibrated(few: int, layers: int) -> float:
    """The efficiency of a tile with which the small run is at 10 % of the peak."""
    work = 6 * PARAMETERS * layers / 96 * 8 * few * SEQUENCE
    efficiency = 0.15
    for _ in range(2):
        seconds = step_seconds(few, 8 * few, (8, few, "zero1"), layers, efficiency, 0)
        reached = work / seconds / (few * TILES * PEAK)
        efficiency = min(1.0, efficiency * 0.10 / reached)
    return efficiency
