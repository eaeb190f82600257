"""Matrix products of other people's tables, by the profiles of the presets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from claim import machine_of, need, percent, spread, table

from chakrakit.arrays import F64, Mask
from chakrakit.machines.device import Device, Profiled, packaged_profile
from chakrakit.operators import gemm_operation
from fit_carried import half_fitted

TABLES = (
    ("H200", "gemm_h200_bf16.parquet", "dgx-h200", 7),
    ("H100", "gemm_h100_bf16_sample.parquet", "dgx-h100", 3),
    ("A100", "gemm_a100_bf16_sample.parquet", "dgx-a100", 1),
    ("B200", "gemm_b200_bf16_sample.parquet", "dgx-b200", 3),
)
"""Card, table, preset, and every which row is asked."""
LARGE = 1e12
"""FLOPs of a product that is limited by the rate alone."""
LIMITS = ((0.0, 5.0), (5.0, 50.0), (50.0, np.inf))
"""Ranges of measured microseconds: latency, the middle, rate and bandwidth."""


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    lines: list[list[object]] = []
    for card, name, machine, step in TABLES:
        rows = pq.read_table(need(data, "kernels", name)).to_pydict()
        chosen = range(0, len(rows["m"]), step)
        device = machine_of(machine).devices[0]
        truth = np.array([rows["latency_us"][i] for i in chosen])
        flops = np.array([2.0 * rows["m"][i] * rows["n"][i] * rows["k"][i] for i in chosen])
        for split, profile in _profiles(data, device, rows):
            asked = chosen if split != LEFT_OUT else [i for i in chosen if i % 2]
            keep = np.isin(np.array(chosen), asked)
            found = np.array([_us(profile, device, *(rows[c][i] for c in "mnk")) for i in asked])
            ranges = [(f"{a:g} to {b:g}" if np.isfinite(b) else f"from {a:g}",
                       (truth[keep] >= a) & (truth[keep] < b)) for a, b in LIMITS]  # fmt: skip
            ranges.append(("from 1 TFLOP", flops[keep] >= LARGE))
            lines += [_line(card, split, span, truth[keep], found, mask) for span, mask in ranges]
    return "\n\n".join([TEXT, table(HEADS, lines)])


LEFT_OUT = "**every other row, fitted on the rest**"


def _profiles(
    data: Path, device: Device, rows: dict[str, list[float]]
) -> list[tuple[str, Profiled]]:
    """The preset's profile, and for a corrected one also that of the rows with even numbers alone."""
    shipped = packaged_profile(device.profile)
    if shipped.base is None:
        return [("one constant fitted", shipped)]
    return [("fitted", shipped), (LEFT_OUT, half_fitted(data, device.profile))]


def _us(profile: Profiled, device: Device, m: int, n: int, k: int) -> float:
    """A linear layer's product: the weight lies transposed."""
    operation = gemm_operation(m, n, k)
    operation = operation._replace(table=f"{operation.kind}.nt")
    found = profile.predict(operation)
    assert found is not None
    return profile.carried(found, operation, device).us


def _line(card: str, split: str, span: str, truth: F64, found: F64, chosen: Mask) -> list[object]:
    errors = (found / truth - 1)[chosen]
    if not len(errors):
        return [card, split, span, 0, "–", "–", "–"]
    middle = percent(float(np.median(errors)), signed=True)
    return [card, split, span, len(errors), middle, *spread(errors)[:2]]


HEADS = ("card", "rows", "measured µs", "number", "median error", "median absolute", "90 %")
TITLE = "Matrix products"
TEXT = """\
`torch.nn.functional.linear` in bf16 as ai-dynamo/aiconfigurator measured it (095f58a; vLLM 0.24.0, A100
0.14.0), m 1 to 32,768, n and k 32 to 65,536; every seventh row of the H200's table, every third of the
H100's and B200's samples, all of the A100's. Predicted by the profiles of dgx-h200, dgx-h100, dgx-a100 and
dgx-b200, as `chakra simulate` times a product that runs alone. The H200's was measured on one H200 by another
method (kernel times, cold cache); one constant, what a cold cache adds, is fitted on half of the table's
products of up to 256 rows (`benchmarks/fit_written_back.py`). The others are carried from its own times and
corrected by their tables: once as shipped, fitted on all rows, and once fitted on every other row and asked
for the rest. The shortest times of the tables, 2.4 µs, include the gaps between kernels of a CUDA graph."""
