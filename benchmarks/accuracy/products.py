"""Matrix products of other people's tables: the H200 profile, and the profile carried to H100 and A100."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, percent, spread, table

from chakrakit.arrays import F64
from chakrakit.machines.device import Device, Profiled, find_profile
from chakrakit.operators import gemm_operation

TABLES = (
    ("H200", "gemm_h200_bf16.parquet", "dgx-h200", 7),
    ("H100", "gemm_h100_bf16_sample.parquet", "dgx-h100", 3),
    ("A100", "gemm_a100_bf16_sample.parquet", "dgx-a100", 1),
)
"""Card, table, machine, and every which row is asked."""
LIMITS = ((0.0, 5.0), (5.0, 50.0), (50.0, np.inf))
"""Ranges of measured microseconds: latency, the middle, rate and bandwidth."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    profile = Profiled(find_profile("h200"))
    lines = []
    for card, name, machine, step in TABLES:
        rows = pq.read_table(need(data, "kernels", name)).to_pydict()
        chosen = range(0, len(rows["m"]), step)
        device = machine_of(machine).devices[0]
        truth = np.array([rows["latency_us"][i] for i in chosen])
        found = np.array([_us(profile, device, *(rows[c][i] for c in "mnk")) for i in chosen])
        lines += [_line(card, truth, found, *limits) for limits in LIMITS]
    return "\n\n".join([TEXT, table(HEADS, lines)])


def _us(profile: Profiled, device: Device, m: int, n: int, k: int) -> float:
    """A linear layer's product: the weight lies transposed."""
    operation = gemm_operation(m, n, k)
    operation = operation._replace(table=f"{operation.kind}.nt")
    found = profile.predict(operation)
    assert found is not None
    return profile.carried(found, operation, device).us


def _line(card: str, truth: F64, found: F64, least: float, most: float) -> list[object]:
    chosen = (truth >= least) & (truth < most)
    errors = (found / truth - 1)[chosen]
    span = f"{least:g} to {most:g}" if np.isfinite(most) else f"from {least:g}"
    middle = percent(float(np.median(errors)), signed=True)
    return [card, span, len(errors), middle, *spread(errors)[:2]]


HEADS = ("card", "measured µs", "rows", "median error", "median absolute", "90 %")
TITLE = "Matrix products on H200, H100 and A100"
TEXT = """\
`torch.nn.functional.linear` in bf16 as ai-dynamo/aiconfigurator measured it (095f58a; vLLM 0.24.0, A100
0.14.0), m 1 to 32,768, n and k 32 to 65,536; every seventh row of the H200's table, every third of the
H100's sample, all of the A100's. Nothing was fitted on these tables. Predicted by the `h200` profile, which
was measured on one H200 by another method (kernel times, cold cache); for H100 and A100 its times are scaled
by what limits each product: the peak rate, the memory's bandwidth, or the shortest kernel. The shortest times
of the tables, 2.4 µs, include the gaps between kernels of a CUDA graph."""
