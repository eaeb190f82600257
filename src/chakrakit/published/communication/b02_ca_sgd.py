"""B02, mixed-precision communication-avoiding SGD: one reduction of a Gram matrix in place of s reductions.

Each rank of CA-SGD has a share of the features (columns) of all samples. For s iterations at a time it
multiplies its share with itself (the Gram matrix of s·b·p samples), the matrices are summed, and s updates
follow from the sum without another message. Plain SGD splits samples, and sums a gradient in every iteration.

That the loss stays the same is run for real, in NumPy, on a small logistic regression.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from chakrakit.arrays import F64
from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Judged,
    Setting,
    Study,
    certain,
    kernel,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.published.communication.regression import final_loss
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

FEATURES = 2000
"""Of epsilon, one of the data sets that the publication uses."""
ITERATIONS = 128
ALL_REDUCE = CollectiveType.ALL_REDUCE
SIZE = {"fp32": 4, "bf16": 2}


def plain_sgd(ranks: int, batch: int, dtype: str) -> TraceSet:
    """Margins, gradient, its sum and the update, `batch` samples a rank and iteration."""
    t = TraceBuilder()
    last: list[int] = []
    flops, moved = 2 * batch * FEATURES, SIZE[dtype] * batch * FEATURES
    for _ in range(ITERATIONS):
        margin = kernel(t, "margin", flops, moved, dtype, last)
        gradient = kernel(t, "gradient", flops, moved, dtype, [margin])
        total = t.collective("sum", ALL_REDUCE, 4 * FEATURES, stream=1, deps=[gradient])
        last = [kernel(t, "update", 2 * FEATURES, 12 * FEATURES, "fp32", [total])]
    return TraceSet.of(t, ranks=ranks)


def avoiding_sgd(ranks: int, batch: int, s: int, dtype: str) -> TraceSet:
    """The Gram matrix of s iterations, its sum, s small recurrences and one update."""
    t = TraceBuilder()
    last: list[int] = []
    columns, rows, width = max(1, FEATURES // ranks), s * batch * ranks, batch * ranks
    share = SIZE[dtype] * rows * columns
    for _ in range(ITERATIONS // s):
        size = share + 4 * rows * rows
        gram = kernel(t, "gram", 2 * rows * rows * columns, size, dtype, last)
        step = t.collective("sum gram", ALL_REDUCE, 4 * (rows * rows + rows), stream=1, deps=[gram])
        for _ in range(s):
            step = kernel(t, "recurrence", 2 * width * rows, 4 * width * rows, "fp32", [step])
        last = [kernel(t, "update", 2 * rows * columns, share, dtype, [step])]
    return TraceSet.of(t, ranks=ranks)


@cache
def machine(ranks: int, seed: int) -> Machine:
    """Nodes of eight A100s, as in the publication."""
    return unsure(load_machine(f"dgx-a100:{max(1, ranks // 8)}"), seed)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of all iterations, and the loss against plain SGD in fp32."""
    s, dtype = setting["s"], setting["dtype"]
    sizes = case["ranks"], case["batch"]
    traces = avoiding_sgd(*sizes, s, dtype) if s else plain_sgd(*sizes, dtype)
    algorithm = {} if setting["sum"] == "auto" else {"all-reduce": setting["sum"]}
    seconds = seconds_of(traces, machine(case["ranks"], seed), algorithms=algorithm)
    loss = final_loss(max(1, s), dtype, seed, ITERATIONS) / final_loss(1, "fp32", seed, ITERATIONS)
    return {"seconds": seconds, "iterations_per_s": ITERATIONS / seconds, "loss_ratio": loss}


def u_shaped(t: Judged) -> F64:
    """With batch 16: the best s is neither the least nor the most that was tried."""
    inside = [1 < s < 64 for s in t.choices("s", batch=16)]
    return certain(all(inside)) if inside else np.empty(0)


def grows(t: Judged) -> F64:
    """The best s with the most ranks is not below the best s with the fewest, at every batch."""
    ranks = sorted({c["ranks"] for c in t.cases})
    few, many = (t.choices("s", ranks=ranks[i]) for i in (0, -1))
    return certain(all(b > a for a, b in zip(few, many, strict=True)))


SUMS = ("auto", "ring", "double-tree", "halving-doubling", "direct")
STUDY = Study(
    id="B02",
    system="Mixed-precision CA-SGD",
    family="communication",
    strength="strong",
    claims=[
        Claim("5.1 to 6.8 times as fast as FP32 SGD on A100s", 5.1, 6.8),
        Claim("the loss within 0.5 % of FP32 SGD", 0.995, 1.005, figure="loss_ratio"),
    ],
    rests_on={
        "the latency of a small all-reduce": "machines/library/cost.py",
        "rates of matrix products by precision": "machines/device/work.py",
        "the shortest time of a kernel": "machines/device/work.py",
    },
    cases=lambda quick: [
        {"ranks": p, "batch": b}
        for p in ((8, 32) if quick else (8, 16, 32))
        for b in ((1, 64) if quick else (1, 4, 16, 64))
    ],
    sides={
        "CA-SGD": [{"s": s, "dtype": "bf16", "sum": "auto"} for s in (1, 2, 4, 8, 16, 32, 64)],
        "SGD, tuned": [{"s": 0, "dtype": d, "sum": a} for d in SIZE for a in SUMS],
        "SGD in FP32": [{"s": 0, "dtype": "fp32", "sum": "auto"}],
    },
    idea="CA-SGD",
    untuned=["SGD in FP32"],
    measure=measure,
    better=("seconds", "min"),
    health="iterations_per_s",
    gone=lambda case: bool(case["batch"] >= 64),
    ablate={"s iterations a reduction": {"s": 1}},
    predictions={
        "the time is U-shaped in s: with batch 16 the best s is inside the range": u_shaped,
        "the best s grows with the ranks": grows,
        "5.1 times is reached with batch 1": lambda t: most(t.gains(batch=1)) - 5.1,
        "no gain is left with batch 64": lambda t: 1.02 - most(t.gains(batch=64)),
        "the gain falls as the batch grows": lambda t: (
            least(t.gains(batch=1)) - most(t.gains(batch=64))
        ),
    },
    cannot_say="Launch gaps of loops that are not compiled, and whether data can be split by features at "
    "all. The loss is run for real, but on a small regression and not on the publication's data.",
)
