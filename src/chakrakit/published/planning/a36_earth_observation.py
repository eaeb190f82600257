"""A36, training on a CPU supercomputer at 1.54 EFLOP/s: what share of its best rate a large run sustains.

The publication gives a peak of 2.16 EFLOP/s and 1.54 sustained. How much of a core's peak kernels reach is
put in; what is asked is how much of the rate of one node is left on many, with gradients summed beside the
backward pass (the idea) or after it, in buckets that either side may choose.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    kernel,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

LAYERS, PARAMETERS, SAMPLES = 32, 1e9, 8
"""Of a generative compressor: a billion parameters; samples of a node and step."""
FLOPS = 6 * PARAMETERS / LAYERS * 1024 * SAMPLES
"""Of a layer: forward and backward over 1,024 patches a sample."""


@cache
def site(nodes: int, seed: int) -> Machine:
    """Nodes of two Armv9 sockets on a fat tree of 400 Gb/s."""
    device = {
        "name": "armv9 node",
        "peak": {"bf16": "100 TFLOP/s"},
        "memory": "256 GB",
        "memory_bandwidth": "1 TB/s",
        "compute_efficiency": 0.5,
        "memory_efficiency": 0.8,
    }
    arity = [nodes] if nodes <= 32 else [32, nodes // 32]
    tree = {"topology": "fat-tree", "arity": arity, "oversubscription": 2, "latency": "2 us"}
    level = {**tree, "bandwidth": "400 Gb/s"} if nodes > 1 else _alone
    return unsure(machine({"device": device, "network": [level]}), seed)


_alone = {"topology": "switch", "size": 1, "bandwidth": "1 GB/s", "latency": "1 us"}


def step(nodes: int, buckets: int, beside: bool) -> TraceSet:
    """Forward, backward, and the sums of gradients: beside the backward pass or after it."""
    t = TraceBuilder()
    last: list[int] = []
    sums: list[int] = []
    for layer in range(2 * LAYERS):
        backward = layer >= LAYERS
        work = FLOPS * (2 / 3 if backward else 1 / 3)
        last = [kernel(t, "layer", work, work / 100, "bf16", last)]
        if nodes > 1 and beside and backward and (layer + 1) % (LAYERS // buckets) == 0:
            sums.append(_sum(t, 2 * PARAMETERS / buckets, last))
    if nodes > 1 and not beside:
        sums = [_sum(t, 2 * PARAMETERS / buckets, last) for _ in range(buckets)]
    kernel(t, "optimizer", PARAMETERS, 16 * PARAMETERS, "bf16", [*last, *sums])
    return TraceSet.of(t, ranks=nodes)


def _sum(t: TraceBuilder, size: float, after: list[int]) -> int:
    return t.collective("gradients", CollectiveType.ALL_REDUCE, int(size), stream=1, deps=after)


@cache
def seconds(nodes: int, buckets: int, beside: bool, seed: int) -> float:
    """Of a step."""
    return seconds_of(step(nodes, buckets, beside), site(nodes, seed))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, and the share of one node's rate that is left."""
    took = seconds(case["nodes"], setting["buckets"], setting["beside"], seed)
    left = seconds(1, 1, True, seed) / took
    shown = {"sustained": left} if case["nodes"] > 1 else {}
    return {"seconds": took, "left": left, **shown}


BUCKETS = (1, 4, 16)
STUDY = Study(
    id="A36",
    system="Earth observation at exascale",
    family="planning",
    strength="bound",
    claims=[
        Claim("1.54 of 2.16 EFLOP/s sustained", 0.66, 0.76, figure="sustained"),
        Claim("100 to 10,000 times less data", 100, 10_000, "not simulable"),
    ],
    rests_on={
        "sums over a tree with fewer links above": "simulator/collectives/choice.py",
        "communication beside compute": "simulator/engine/native.py",
    },
    cases=lambda quick: [{"nodes": n} for n in ((1, 16, 64) if quick else (1, 16, 64, 256, 512))],
    sides={
        "summed beside the backward pass": [{"beside": True, "buckets": b} for b in BUCKETS],
        "summed after it": [{"beside": False, "buckets": b} for b in BUCKETS],
    },
    idea="summed beside the backward pass",
    measure=measure,
    better=("seconds", "min"),
    health="left",
    gone=lambda case: bool(case["nodes"] == 1),
    ablate={"overlap": {"beside": False}},
    predictions={
        "71 % of one node's rate is left somewhere": lambda t: (
            0.05 - abs(least(t.figure("left")) - 0.713)
        ),
        "overlap keeps more of it": lambda t: least(t.gains(nodes=lambda n: n > 1)) - 1.02,
        "one node has nothing to gain": lambda t: 0.02 - most(abs(t.gains(nodes=1) - 1)),
    },
    decides="nothing that is modelled: sums of gradients hide behind compute almost whole, so that the "
    "missing 29 % must be input, imbalance or kernels.",
    cannot_say="The share of a core's peak that kernels reach, and input from the file system; the machine's "
    "network is assumed, and so is the model.",
)
