"""A53, ADELIA: one backward pass in place of 2d + 1 evaluations for the gradient by d hyperparameters.

An evaluation factorises a block tridiagonal matrix, which is a chain: on several GPUs it is cut into parts,
which doubles the work and leaves a small chain between them. Finite differences run 2d + 1 evaluations, as
many at a time as there are GPUs for; how many share one evaluation is theirs to choose. The idea runs one
evaluation and one backward pass over the same blocks, which takes twice the work, on all GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil

from chakrakit.machines import load_machine
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
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

BLOCK, BLOCKS = 4000, 64
"""A block's side and their number: a mesh of 4,000 nodes over 64 steps, about a quarter million unknowns."""
FLOPS = (1 / 3 + 1 + 1) * BLOCK**3
"""Of a block: factorise it, solve with it, update the next."""
BACKWARD = 2.0
"""Work of a backward pass over its forward: two products for each."""
BYTES = 8 * BLOCK * BLOCK
SPLIT = 2.0
"""A part that has neighbours on both sides carries a second chain for them."""


@cache
def site(gpus: int, seed: int) -> Machine:
    """Nodes of eight H100s."""
    return unsure(load_machine(f"dgx-h100:{max(1, ceil(gpus / 8))}"), seed)


@cache
def chain_seconds(parts: int, factor: float, seed: int) -> float:
    """An evaluation (or a backward pass) in parts, one a GPU, and the chain that is left between them."""
    ranks = [TraceBuilder() for _ in range(parts)]
    work = factor * FLOPS * (SPLIT if parts > 1 else 1.0)
    ends: list[int] = []
    for rank, t in enumerate(ranks):
        last: list[int] = []
        for _ in range(BLOCKS // parts):
            last = [kernel(t, "block", work, 4 * BYTES, "fp64", last)]
        if rank:
            t.send("edge", rank, 0, 2 * BYTES, tag=rank, deps=last)
            ends.append(ranks[0].recv("edge", rank, 0, 2 * BYTES, tag=rank))
        else:
            ends += last
    for _ in range(parts if parts > 1 else 0):
        ends = [kernel(ranks[0], "between", factor * FLOPS, 4 * BYTES, "fp64", ends)]
    return seconds_of(TraceSet.of(ranks), site(parts, seed))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a gradient, and the joules it takes at the GPUs' power."""
    gpus, parts = case["gpus"], min(setting["parts"], case["gpus"])
    once = chain_seconds(parts, 1.0, seed)
    if setting["by"] == "backward":
        seconds, used = once + chain_seconds(parts, BACKWARD, seed), parts
    else:
        evaluations = 2 * case["d"] + 1
        at_once = max(1, gpus // parts)
        seconds, used = once * ceil(evaluations / at_once), parts * min(at_once, evaluations)
    watts = site(gpus, seed).devices[0].power
    joules = seconds * used * watts
    own = {}
    if setting["by"] == "backward":
        evaluations = 2 * case["d"] + 1
        own["energy_ratio"] = evaluations * chain_seconds(1, 1.0, seed) * watts / joules
    work = FLOPS * BLOCKS * (1 + BACKWARD if setting["by"] == "backward" else 2 * case["d"] + 1)
    return {"seconds": seconds, "joules": joules, "tflops": work / seconds / used / 1e12, **own}


def cases(quick: bool) -> Sequence[Case]:
    """Few and many hyperparameters, on one GPU and on many."""
    ds, gpus = ((1, 15), (1, 16)) if quick else ((1, 4, 8, 15), (1, 4, 16, 32))
    return [{"d": d, "gpus": g} for d in ds for g in gpus]


PARTS = (1, 2, 4, 8)
STUDY = Study(
    id="A53",
    system="ADELIA",
    family="devices",
    strength="direction",
    claims=[
        Claim("4.2 to 7.9 times as fast for each gradient", 4.2, 7.9),
        Claim("differences take 5 to 8 times the energy", 5.0, 8.0, figure="energy_ratio"),
    ],
    rests_on={
        "rates of double precision": "machines/device/work.py",
        "messages between GPUs": "simulator/engine/messages.py",
        "the power of a GPU at work": "machines/device/power.py",
    },
    cases=cases,
    sides={
        "one backward pass": [{"by": "backward", "parts": p} for p in PARTS],
        "finite differences": [{"by": "differences", "parts": p} for p in PARTS],
    },
    idea="one backward pass",
    measure=measure,
    better=("seconds", "min"),
    health="tflops",
    gone=lambda case: bool(case["d"] == 1),
    ablate={"the backward pass": {"by": "differences"}},
    predictions={
        "no gain with one hyperparameter": lambda t: 1.02 - most(t.gains(d=1)),
        "the gain grows with their number": lambda t: (
            least(t.gains(d=15, gpus=1)) - most(t.gains(d=4, gpus=1))
        ),
        "with as many GPUs as evaluations, differences are as fast": lambda t: (
            1.02 - most(t.gains(d=15, gpus=32))
        ),
        "at that they take 5 to 8 times the energy": lambda t: (
            most(t.figure("energy_ratio", d=15)) - 5
        ),
    },
    cannot_say="Statistics of the models, and kernels for sparse blocks; energy is power times time.",
)
