"""Generated layers replayed on one H200, beside the same traces simulated."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from claim import table

import chakrakit as ck

MEASURED = {
    "llama3.1-8b, 2 layers, 4,096 tokens": (
        {"model": "llama3.1-8b", "layers": 2, "seq": 4096, "global_batch": 1},
        54.88,
        52.78,
    ),
    "mixtral-8x7b, 1 layer, 4,096 tokens": (
        {"model": "mixtral-8x7b", "layers": 1, "seq": 4096, "global_batch": 1},
        39.52,
        38.09,
    ),
    "vit-l-16, 8 layers, 64 images": (
        {"model": "vit-l-16", "layers": 8, "global_batch": 64, "micro_batch": 64},
        17.86,
        16.70,
    ),
}
"""Workload → how it is generated, and the replayed step and its time in kernels, in ms: `chakra generate`,
`chakra replay --device cuda --export`, run on one H200 with PyTorch 2.11, the median of 20 iterations."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md; the truth is in this file, so `data` is not read."""
    lines = []
    for name, (workload, step, kernels) in MEASURED.items():
        with TemporaryDirectory() as folder:
            ck.generate(output=f"{folder}/w", **workload)
            simulated = ck.simulate(f"{folder}/w", machine="dgx-h200").makespan_ns / 1e6
        figures = [f"{ms:.2f}" for ms in (step, kernels, simulated)]
        lines.append([name, *figures, f"{simulated / step - 1:+.1%}"])
    return "\n\n".join([TEXT, table(HEADS, lines)])


HEADS = (
    "training step",
    "replayed ms",
    "of it kernels",
    "simulated ms",
    "simulated against replayed",
)
TITLE = "Generated layers on one H200"
TEXT = """\
`chakra replay` of a generated trace runs PyTorch's own operators of the same shapes: `mm`, `bmm`, flash
attention, one fused AdamW per unit, and for all other work an element-wise operator that moves as many bytes.
Nothing was fitted on these runs; that a generated optimizer counts as a fused AdamW was decided after
seeing them. Replayed, it reaches 60 % of the memory's bandwidth on single tensors of gigabytes."""
