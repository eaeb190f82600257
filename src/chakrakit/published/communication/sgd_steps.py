"""Iterations of stochastic gradient descent as traces: plain, and with communication avoided."""

from __future__ import annotations

from chakrakit.published import kernel
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
