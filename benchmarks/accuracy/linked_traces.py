"""Linked traces of one H200: the measured step, from the traces' own times and from the profile."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
from claim import need, percent, table

from chakrakit import Trace, TraceSet
from chakrakit.simulator.results import simulate
from chakrakit.sources.pytorch.linking import LinkOptions, link

WORKLOADS = ("gpt2_124m_b8_s1024", "llama_1b_b4_s2048", "resnet50_b128")


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    lines = []
    for name in WORKLOADS:
        card = need(data, "gpu_h200", name, "card.json")
        measured = json.loads(card.read_text())["step_ms_back_to_back"]
        trace = recorded(data, name)
        cells = [name, f"{measured:.2f}"]
        for compute in ("measured", "h200", "roofline"):
            found = period_ms(trace, compute)
            cells += [f"{found:.2f}", percent(found / measured - 1, signed=True)]
        lines.append(cells)
    return "\n\n".join([TEXT, table(HEADS, lines)])


@cache
def recorded(data: Path, name: str) -> Trace:
    """A workload of the folder, linked."""
    folder = need(data, "gpu_h200", name)
    options = LinkOptions(times=(folder / "kineto_only.json.gz",), undilate=True)
    return link([folder / "et.json.gz", folder / "kineto.json.gz"], options)[0].trace(0)


def period_ms(trace: Trace, compute: str) -> float:
    """Mean of the two recorded steps, from the last kernel of one to the last of the next."""
    end = simulate(TraceSet([trace]), "dgx-h200", compute=compute).outcome.end / 1e9
    device = ~trace.column("is_cpu_op").astype(bool)
    step, orphan = trace.column("step", -1), trace.column("orphan", False).astype(bool)
    steps = np.unique(step[device & (step >= 0)])[-2:]
    ends = [end[orphan].max()] + [end[device & (step == s)].max() for s in steps]
    return float(np.diff(ends).mean())


HEADS = (
    "workload",
    "measured ms",
    "own times",
    "error",
    "profile `h200`",
    "error",
    "roofline",
    "error",
)
TITLE = "Steps recorded on one H200"
TEXT = """\
Traces of one NVIDIA H200 (PyTorch 2.11, bf16), linked in two passes and simulated on `dgx-h200`. The mean
period of two simulated steps is compared with the step time of the program without a profiler, steps back
to back."""
