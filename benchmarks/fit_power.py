"""Fits what a device draws by class of work and clock: `python benchmarks/fit_power.py [FILE.jsonl]`.

A line is an operator that ran for a second or more: its class, FLOPs, bytes, element type, milliseconds, mean
clock (`mhz_mean`) and watts by NVML's energy counter. Operands that are not random, and index operations,
which memory's latency limits, are left out. Prints the constants and how far they are from every other line
when they are fitted on the rest.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from chakrakit import Trace, TraceBuilder, load_machine
from chakrakit.arrays import F64
from chakrakit.machines.device import Device, Draw, PowerConstants, activity_of
from chakrakit.machines.device.activity import REACHED
from chakrakit.machines.library import descend

OWN = Path(__file__).parents[1] / "tests" / "data" / "h200_power.jsonl"
CLOCKS = OWN.with_name("h200_clocks.jsonl")
"""Kernels in CUDA graphs on one H200 at locked clocks: FLOPs, bytes, and microseconds by MHz."""
CLASSES = ("product", "memory", "elementwise", "norm", "attention", "convolution", "optimizer")
FITTED = (
    "clock_watts",
    "memory_pj",
    "cache_pj",
    "vector_watts",
    "attention",
    "voltage",
    "knee_mhz",
)
HIGH = 1_500
"""MHz; above it the chip keeps up with its memory."""
OUTLIER = 0.08
"""Relative error from which a row counts less."""


def operators(path: Path) -> list[dict[str, Any]]:
    """The rows to be fitted."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [r for r in rows if r["cls"] in (*CLASSES, "idle") and not r.get("data")]


def trace_of(rows: list[dict[str, Any]]) -> Trace:
    """One node per row."""
    t = TraceBuilder()
    for r in rows:
        kind = "attention" if r["cls"] == "attention" else "matmul" if r["flops"] else "vector"
        t.comp(
            r["name"],
            duration_ns=max(1, round(r["ms"] * 1e6)),
            num_ops=int(r["flops"]),
            tensor_size=int(r["bytes"]),
            op_type=kind,
            dtype=r.get("dtype", "bf16"),
        )
    return t.build()


def watts(rows: list[dict[str, Any]], trace: Trace, device: Device, c: PowerConstants) -> F64:
    """Of each row at the clock it ran at."""
    seconds = np.array([max(r["ms"], 1e-6) * 1e-3 for r in rows])
    activity = activity_of(trace, device, c, seconds)
    share = np.array([r["mhz_mean"] for r in rows]) / c.clock_mhz
    draws = [Draw(constants=c, share=float(s)) for s in share]
    volts = np.array([d.voltage**2 for d in draws])
    work = np.where([r["cls"] != "idle" for r in rows], 1.0, 0.0)
    drawn = (activity.chip_joules * volts + activity.memory_joules) / seconds * work
    return device.idle_power + np.array([d.clock_watts for d in draws]) + drawn


def fitted(rows: list[dict[str, Any]], device: Device, start: PowerConstants) -> PowerConstants:
    """The constants that meet these rows best."""
    trace, truth = trace_of(rows), np.array([r["watts"] for r in rows])
    dtypes = sorted({r.get("dtype", "bf16") for r in rows if r["flops"]})

    def made(x: F64) -> PowerConstants:
        values = np.exp(x).tolist()
        named = dict(zip(FITTED, values, strict=False))
        named["voltage"] = min(1.0, named["voltage"])
        products = {**start.product_pj, **dict(zip(dtypes, values[len(FITTED) :], strict=True))}
        return msgspec.structs.replace(start, product_pj=products, **named)

    def residuals(x: F64) -> F64:
        off = watts(rows, trace, device, made(x)) / truth - 1
        return np.asarray(
            np.sign(off) * OUTLIER * np.sqrt(2 * np.sqrt(1 + (off / OUTLIER) ** 2) - 2)
        )

    first = [getattr(start, n) for n in FITTED] + [start.product_pj[d] for d in dtypes]
    return made(descend(residuals, np.log(first)))


def memory_line(rows: list[dict[str, Any]], least: float = 0.9) -> tuple[float, float]:
    """`memory_clock_mhz` and `memory_stop_mhz` of operators that fill the memory at a high clock.

    Their bandwidth at lower clocks, as a share of that, over the clock: a line that ends at 1.
    """
    device = load_machine("dgx-h200").devices[0]
    assert device.dynamic is not None
    by_name: dict[str, list[dict[str, Any]]] = {}
    for r in rows:
        by_name.setdefault(r["name"], []).append(r)
    points = []
    for same in by_name.values():
        first = max(same, key=lambda r: r["mhz_mean"])
        full = REACHED * device.memory_bandwidth * first["ms"] * 1e-3
        moved = first["bytes"]
        if first["mhz_mean"] < HIGH or moved < max(device.dynamic.cache_bytes, least * full):
            continue
        points += [(r["mhz_mean"], first["ms"] / r["ms"]) for r in same if r["mhz_mean"] < HIGH]
    slope, start = np.polyfit(*np.array(points).T, 1)
    return float((1 - start) / slope), float(-start / slope)


def latency_share(path: Path = CLOCKS) -> float:
    """`LATENCY` of machines/device/power.py: what leaves least of kernels at clocks from 810 to 1,680 MHz.

    Those that products limit are left out: at a free clock they run at whatever the power limit leaves.
    """
    device = load_machine("dgx-h200").devices[0]
    c = device.dynamic
    assert c is not None
    points = []
    for row in map(json.loads, path.read_text().splitlines()):
        seconds = row["us"]["free"] * 1e-6
        full = min(1.0, row["bytes"] / (REACHED * device.memory_bandwidth * seconds))
        if row["flops"] / device.peak_rate("bf16") < full * seconds:
            for mhz in (1680, 1500, 1410, 1200, 1005, 810):
                slow = row["us"][str(mhz)] / row["us"]["free"]
                points.append((full * c.memory_stretch(mhz), 1 - full, c.clock_mhz / mhz, slow))
    memory, rest, clock, measured = np.array(points).T

    def left(share: float) -> float:
        return float(
            np.abs(np.log((memory + rest * (share + (1 - share) * clock)) / measured)).mean()
        )

    return min(np.linspace(0, 1, 21).tolist(), key=left)


def main(path: Path) -> None:
    """Fits and reports."""
    device = load_machine("dgx-h200").devices[0]
    assert device.dynamic is not None
    rows = operators(path)
    for name, used in (("every other row", rows[::2]), ("all rows", rows)):
        found = fitted(used, device, device.dynamic)
        off = np.abs(watts(rows, trace_of(rows), device, found) / [r["watts"] for r in rows] - 1)
        rest = off[1::2] if name != "all rows" else off
        print(f"{name}: |error| of the {'others' if len(used) < len(rows) else 'same'}: ", end="")
        print(f"mean {rest.mean():.1%}, median {np.median(rest):.1%}, worst {rest.max():.0%}")
    full, stop = memory_line(rows)
    print(
        f"memory: full from {full:.0f} MHz, none at {stop:.0f}; latency {latency_share():.2f} of the rest"
    )
    print(json.dumps(msgspec.to_builtins(found)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OWN)
