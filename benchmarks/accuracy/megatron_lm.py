"""Iteration times of Megatron-LM on A100, published, beside what is generated and simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from claim import each, percent, table

from megatron import CONSTANT, TABLE, flops, seconds


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; its figures are the paper's, so no data is needed."""
    del data
    lines, shipped, plain = [], [], []
    for row, time in zip(TABLE, each(seconds, TABLE), strict=True):
        shipped.append(time / row.seconds - 1)
        plain.append(flops(row) / row.gpus / CONSTANT / row.seconds - 1)
        cells = [row.size, row.gpus, f"{row.seconds:.3f}", f"{time:.3f}"]
        lines.append([*cells, *(percent(part[-1], True) for part in (shipped, plain))])
    means = [percent(float(np.abs(e).mean())) for e in (shipped, plain)]
    lines.append(["mean absolute", "", "", "", f"**{means[0]}**", means[1]])
    return "\n\n".join([TEXT, table(HEADS, lines)])


HEADS = ("model", "GPUs", "published s", "simulated s", "error", "constant rate")
TITLE = "Megatron-LM on A100, 1.7B to 1T"
TEXT = """\
Narayanan et al. 2021 (arXiv 2104.04473, table 1: full recompute), generated and simulated by `chakra
simulate --machine dgx-a100:N --framework megatron-lm`; beside it what a constant 142 TFLOP/s gives.
Micro-batches and the interleaved schedule are those of the authors' scripts (NVIDIA/Megatron-LM,
examples/sc21/run_table_1.sh). Weights' gradients are summed in kernels of their own and computed before
input gradients are reduced (`weight_grads: separate`), as this version did, and fp16 gradients are reduced
after backward. Nothing was fitted on these rows. The framework's one factor, on products, is the median of
those that bring the eight rows of Korthikanti et al. 2022 (arXiv 2205.05198, table 5: a later version on the
same GPUs) to their published times (`python benchmarks/megatron.py fit`). It says how much slower products
are within steps on an A100 than alone: half of llm-foundry's rows on A100, fitted by themselves, give 1.17,
those on H100 1.02. Exchanges between pipeline stages run beside computation here; in this version they did
not."""
