"""Where ranks go: slices of TPU chips and trees of nodes, and ways to walk through them."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes import Select
from chakrakit.published import seconds_of, unsure
from chakrakit.simulator.engine import with_bandwidth
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

Path = tuple[int, ...]
"""The device of each place; ranks take the places in order."""
DIMS = {"mesh 2×4": (2, 4), "mesh 4×4": (4, 4), "mesh 4×8": (4, 8), "torus 4×8": (4, 8)}
"""Slices, and how wide and high they are."""
REDUCING = ("all-reduce", "all-gather", "reduce-scatter")
ALGORITHMS: dict[str, dict[str, str]] = {
    "auto": {},
    "ring": dict.fromkeys(REDUCING, "ring"),
    "halving": dict.fromkeys(REDUCING, "halving-doubling"),
}


def slice_of(wide: int, high: int, wraps: bool) -> Machine:
    """A sub-slice of TPU v5e chips: a mesh, or a torus where it wraps around."""
    kind = "torus" if wraps else "mesh"
    level = {"topology": kind, "dims": [wide, high], "bandwidth": "400 Gb/s", "latency": "500 ns"}
    return machine({"device": "tpu-v5e", "network": [level]})


def tree(oversubscription: float, nodes: int) -> Machine:
    """Nodes of four devices, a quarter (or half of four) of them on each leaf."""
    leaves = 4 if nodes > 4 else 2
    inside = {"topology": "switch", "size": 4, "bandwidth": "300 GB/s", "latency": "300 ns"}
    arity = [4 * nodes // leaves, leaves]
    fabric = {
        "topology": "fat-tree",
        "size": nodes,
        "arity": arity,
        "joins": "flat",
        "uplinks": [1],
    }
    speed = {"bandwidth": "25 GB/s", "latency": "1 us", "oversubscription": oversubscription}
    return machine({"device": "a100-sxm-80gb", "network": [inside, {**fabric, **speed}]})


def denoising(plan: Plan) -> TraceSet:
    """The forward pass of one of Wan 2.1's forty blocks, for a video with and without its prompt."""
    model = msgspec.structs.replace(model_named("wan2.1-14b"), layers=1, height=96)
    step = Step(global_batch=2, micro_batch=2 // plan.dp)
    return generate(Workload(model=model, plan=plan, step=step)) | Select(phases=("forward",))


def training(plan: Plan, layers: int) -> TraceSet:
    """A training step of some of Llama 3.1 8B's layers; a pipeline gets as many micro-batches as stages."""
    model = msgspec.structs.replace(model_named("llama3.1-8b"), layers=layers)
    return generate(
        Workload(model=model, plan=plan, step=Step(seq=2048, global_batch=plan.dp * plan.pp))
    )


def shardings(devices: int) -> list[Plan]:
    """Two ways to spread a denoising step of two samples over the devices."""
    sizes = [(tp, devices // tp // 2) for tp in (2, 4)]
    return [Plan(tp=tp, cp=cp, dp=2, data="none", sequence_parallel=True) for tp, cp in sizes]


def tree_plans(nodes: int) -> list[Plan]:
    """Tensors split within a node, or over two."""
    return [Plan(tp=4, dp=nodes), Plan(tp=8, dp=nodes // 2)]


def scattered(nodes: int, seed: int) -> Path:
    """Nodes of four devices in the order in which a scheduler happens to give them."""
    order = np.random.default_rng([seed, 4]).permutation(nodes)
    return tuple(int(4 * node + i) for node in order for i in range(4))


def tiles(wide: int, high: int, across: int, up: int) -> Path:
    """A grid tile by tile; within and between tiles row by row. Device = x + wide · y."""
    return tuple(
        tx * across + x + wide * (ty * up + y)
        for ty in range(high // up)
        for tx in range(wide // across)
        for y in range(up)
        for x in range(across)
    )


def snake(wide: int, high: int) -> Path:
    """Row by row, every second one backwards."""
    return tuple(
        (x if y % 2 == 0 else wide - 1 - x) + wide * y for y in range(high) for x in range(wide)
    )


@cache
def site(name: str, oversubscription: float, nodes: int, seed: int) -> Machine:
    """The machine of a case, its constants varied."""
    if name in DIMS:
        return unsure(slice_of(*DIMS[name], name.startswith("torus")), seed)
    return unsure(tree(oversubscription, nodes), seed)


@cache
def traces(name: str, plan: int, order: str, layers: int, nodes: int) -> TraceSet:
    """A denoising step on a slice, a training step on a tree."""
    on_slice = name in DIMS
    plans = shardings(DIMS[name][0] * DIMS[name][1]) if on_slice else tree_plans(nodes)
    ordered = msgspec.structs.replace(plans[plan], order=order)
    return denoising(ordered) if on_slice else training(ordered, layers)


@cache
def step(
    kind: str,
    over: float,
    nodes: int,
    layers: int,
    plan: int,
    order: str,
    how: str,
    at: Path,
    seed: int,
) -> tuple[float, float]:
    """Seconds, and the share of them that links without end would take; equal ways are simulated once."""
    work, machine = traces(kind, plan, order, layers, nodes), site(kind, over, nodes, seed)
    seconds = seconds_of(work, machine, algorithms=ALGORITHMS[how], placement=at)
    return seconds, unhindered(kind, nodes, layers, plan, order, seed) / seconds


@cache
def unhindered(kind: str, nodes: int, layers: int, plan: int, order: str, seed: int) -> float:
    """Seconds of a step on links a thousand times as fast: its compute."""
    machine = with_bandwidth(site(kind, 1.0, nodes, seed), 1000.0)
    return seconds_of(traces(kind, plan, order, layers, nodes), machine)
