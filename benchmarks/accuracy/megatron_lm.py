"""Iteration times of Megatron-LM on A100, published, beside what is generated and simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from claim import percent, table

from megatron import COMPUTE, CONSTANT, MEMORY, TABLE, candidates, flops, seconds


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; its figures are the paper's, so no data is needed."""
    del data
    lines, errors, plain = [], [], []
    for size, tp, pp, dp, batch, published in TABLE:
        found = [(seconds(w, COMPUTE, MEMORY), w) for w in candidates(size, tp, pp, dp, batch)]
        took, workload = min(found, key=lambda f: f[0])
        constant = flops(workload) / (tp * pp * dp) / CONSTANT
        errors.append(took / published - 1)
        plain.append(constant / published - 1)
        cells = [size, tp * pp * dp, f"{published:.3f}", f"{took:.3f}"]
        lines.append([*cells, percent(errors[-1], True), percent(plain[-1], True)])
    means = [percent(float(np.abs(e).mean())) for e in (errors, plain)]
    lines.append(["mean absolute", "", "", "", f"**{means[0]}**", means[1]])
    return "\n\n".join([TEXT, table(HEADS, lines)])


HEADS = ("model", "GPUs", "published s", "simulated s", "error", "constant rate")
TITLE = "Megatron-LM on A100, 1.7B to 1T"
TEXT = f"""\
Narayanan et al. 2021 (arXiv 2104.04473, table 1: full recompute), simulated on `dgx-a100` with the
roofline and two constants, the parts of the peak rate ({COMPUTE}) and of the memory's bandwidth
({MEMORY}) that kernels reach. They are not fitted on these rows but on four rows of Korthikanti et al.
2022 (arXiv 2205.05198, table 5; `python benchmarks/megatron.py fit`). The last column is what a constant
142 TFLOP/s gives. What the paper does not say is assumed: the micro-batch of 1, 2, 4 and 8 that simulates
fastest (1 for the largest models), 1F1B without interleaving, fp16 gradients reduced after backward."""
