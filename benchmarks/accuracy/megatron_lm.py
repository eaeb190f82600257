"""Iteration times of Megatron-LM on A100, published, beside what is generated and simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from claim import each, percent, table

from chakrakit.workloads.description import Workload
from megatron import COMPUTE, CONSTANT, MEMORY, TABLE, candidates, flops, seconds, shipped_seconds


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; its figures are the paper's, so no data is needed."""
    del data
    lines, errors, plain, shipped = [], [], [], []
    workloads = [list(candidates(*row[:-1])) for row in TABLE]
    flat = [w for several in workloads for w in several]
    by_constants = iter(each(_by_constants, flat))
    by_preset = iter(each(shipped_seconds, flat))
    for (size, tp, pp, dp, _, published), several in zip(TABLE, workloads, strict=True):
        errors.append(min(next(by_constants) for _ in several) / published - 1)
        as_shipped = min(next(by_preset) for _ in several)
        shipped.append(as_shipped / published - 1)
        plain.append(flops(several[0]) / (tp * pp * dp) / CONSTANT / published - 1)
        cells = [size, tp * pp * dp, f"{published:.3f}", f"{as_shipped:.3f}"]
        parts = (shipped, errors, plain)
        lines.append([*cells, *(percent(part[-1], True) for part in parts)])
    means = [percent(float(np.abs(e).mean())) for e in (shipped, errors, plain)]
    lines.append(["mean absolute", "", "", "", f"**{means[0]}**", *means[1:]])
    return "\n\n".join([TEXT, table(HEADS, lines)])


def _by_constants(workload: Workload) -> float:
    return seconds(workload, COMPUTE, MEMORY)


HEADS = ("model", "GPUs", "published s", "simulated s", "error", "two constants", "constant rate")
TITLE = "Megatron-LM on A100, 1.7B to 1T"
TEXT = f"""\
Narayanan et al. 2021 (arXiv 2104.04473, table 1: full recompute), generated and simulated by `chakra
simulate --machine dgx-a100:N` with the preset as it is shipped; nothing was fitted on these rows. Beside it
the roofline with two constants, the parts of the peak rate ({COMPUTE}) and of the memory's bandwidth
({MEMORY}) that kernels reach, fitted on four rows of Korthikanti et al. 2022 (arXiv 2205.05198, table 5;
`python benchmarks/megatron.py fit`), and what a constant 142 TFLOP/s gives. What the paper does not say is
assumed: the micro-batch of 1, 2, 4 and 8 that simulates fastest (1 for the largest models), 1F1B without
interleaving, fp16 gradients reduced after backward."""
