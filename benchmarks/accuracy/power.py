"""Power and clocks of one H200: operators, whole steps, and what its limit does to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from claim import machine_of, need, percent, spread, table
from linked_traces import WORKLOADS, period_ms, recorded

from chakrakit import Trace, TraceBuilder, TraceSet
from chakrakit.simulator.results import simulate
from chakrakit.sources.pytorch.linking import link

OWN = Path(__file__).parents[2] / "tests" / "data" / "h200_power.jsonl"
"""Recorded for the fit: operators at free and at locked clocks."""
PROGRAMS = OWN.parent / "h200"
"""Programs recorded after all constants were fixed; some have a card with their power, steps back to back."""
DEVICE = "dgx-h200"
IMAGINED = ("zeros", "ones", "half")
"""What operands were filled with where it was not random numbers; the constants are for those."""


def watts(row: dict[str, Any]) -> float:
    """What the model says of an operator that took the time it took."""
    t = TraceBuilder()
    kind = (
        {"op_type": "attention" if row["cls"] == "attention" else "matmul"} if row["flops"] else {}
    )
    t.comp(
        row["name"],
        duration_ns=max(1, round(row["ms"] * 1e6)),
        num_ops=int(row["flops"]),
        tensor_size=int(row["bytes"]),
        dtype=row.get("dtype", "bf16"),
        **(kind or {"op_type": "vector"}),
    )
    found = simulate(TraceSet([t.build()]), machine_of(DEVICE), compute="measured").summary
    return (found.energy_joules or 0.0) / (found.makespan_ns * 1e-9)


def earlier(data: Path) -> list[dict[str, Any]]:
    """Operators that somebody else recorded, in the terms of our own."""
    rows = []
    for row in json.loads(need(data, "gpu_serve", "power_h200.json").read_text()):
        name, size = row["name"].split("_")[0], row["name"].split("_")[-1]
        if "ms" not in row or "zeros" in row["name"]:
            continue
        if name == "gemv":
            row |= {"flops": 2 * int(size) * row["bytes"] / 2}
        if name == "exp":
            row |= {"bytes": 2 * 4 * 2**28}
        if name == "gemm":
            row |= {"bytes": 6 * int(size) ** 2}
        rows.append({"flops": 0, "cls": "operator", **row})
    return rows


def measure(data: Path) -> str:
    """The section of docs/accuracy.md."""
    own = [json.loads(line) for line in OWN.read_text().splitlines()]
    kinds = ("product", "memory", "elementwise", "norm", "attention", "convolution", "optimizer")
    free = [
        r
        for r in own
        if r["cls"] in kinds and r.get("data") not in IMAGINED and not r.get("locked")
    ]
    other = earlier(data)
    errors = [[watts(r) / r["watts"] - 1 for r in rows] for rows in (free, other)]
    lines = [
        ("our operators at free clocks: fitted", len(free), *spread(errors[0])),
        ("operators recorded earlier: **not fitted**", len(other), *spread(errors[1])),
    ]
    shown = [
        (r["name"], f"{r['watts']:.0f}", percent(e, signed=True))
        for r, e in zip(other, errors[1], strict=True)
    ]
    steps = [_workload(data, name) for name in WORKLOADS]
    steps += [_program(card) for card in sorted(PROGRAMS.glob("*/card.json"))]
    off = [abs(e) for _, e in steps]
    text = (
        TEXT
        + f" Mean absolute error of the power of the steps: **{percent(float(np.mean(off)))}**."
    )
    return "\n\n".join(
        [
            text,
            table(("operators", "rows", "median error", "90 %", "worst"), lines),
            table(("operator, not fitted", "measured W", "error"), shown),
            table(STEPS, [cells for cells, _ in steps]),
        ]
    )


def _workload(data: Path, name: str) -> tuple[list[str], float]:
    """Mean power while the device works, clock and step, by own times and by the profile."""
    truth = next(
        r
        for r in json.loads(need(data, "gpu_serve", "power_workloads_h200.json").read_text())
        if r["case"] == name
    )
    trace = recorded(data, name)
    step = period_ms(trace, "h200")
    return _step(name, trace, step, truth["watts"], truth["median_mhz"], truth["step_ms"])


def _program(card: Path) -> tuple[list[str], float]:
    """The same of a program of our own."""
    truth = json.loads(card.read_text())
    trace = link([card.with_name("et.json.gz"), card.with_name("kineto.json.gz")])[0].trace(0)
    step = simulate(TraceSet([trace]), machine_of(DEVICE), compute="h200").makespan_ns / 1e6
    measured = truth["watts"], truth["mhz"], truth["busy_step_ms"]
    return _step(card.parent.name, trace, step, *measured)


def _step(
    name: str, trace: Trace, step: float, watts: float, mhz: float, step_ms: float
) -> tuple[list[str], float]:
    """A line of the table, and the error of the power."""
    found = simulate(TraceSet([trace]), machine_of(DEVICE), compute="measured").summary
    error = (found.energy_joules or 0.0) / (found.makespan_ns * 1e-9) / watts - 1
    limited = simulate(TraceSet([trace]), machine_of(DEVICE), compute="h200").summary
    return [
        name,
        f"{watts:.0f}",
        percent(error, signed=True),
        f"{mhz:,.0f}",
        f"{limited.clock_mhz or 0:,.0f}",
        f"{step_ms:.2f}",
        percent(step / step_ms - 1, signed=True),
    ], error


STEPS = (
    "step, not fitted",
    "measured W",
    "error",
    "measured MHz",
    "predicted",
    "measured ms",
    "error, by the profile",
)
TITLE = "Power and clocks of one H200"
TEXT = """\
Each operator ran on random data for a second or more while NVML's energy counter was read. The constants
of `dgx-h200` (`dynamic`) are fitted by `benchmarks/fit_power.py` on operators recorded for this purpose,
with free clocks and with clocks locked at 1,005 and 1,410 MHz (tests/data/h200_power.jsonl). Operators
of an earlier recording and whole training steps are not fitted. Products timed one by one are as fast as
sustained ones at 77 % of the highest clock, so a limit slows a profile's products only below that clock.
The power of a step is predicted from the times of its linked trace; the clock that the limit of 700 W
allows, and the step time at that clock, are predicted from the profile."""
