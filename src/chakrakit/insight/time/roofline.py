"""How well the device is used: operations per second against bytes moved, and the share of its peak."""

from __future__ import annotations

import msgspec

from chakrakit.insight.rank import Table, ms
from chakrakit.insight.time.operators import Operators, Spent, operators
from chakrakit.results import Result
from chakrakit.trace.sets import Run


class Point(Result, msgspec.Struct):
    """An operator on the roofline. `intensity` is operations per byte; `bound` what its peak is set by."""

    name: str
    shapes: str
    time_ns: int
    ops: int
    bytes: int
    intensity: float
    tflops: float
    gbps: float
    bound: str
    of_roof: float


class Roofline(Result, msgspec.Struct):
    """Points by time, and the run as a whole. MFU needs the device's peak; 0 where it is not given."""

    ops: int
    tflops_per_rank: float
    mfu: float
    peak_tflops: float
    peak_gbps: float
    points: list[Point]

    def table(self) -> Table:
        """One row per operator and shapes."""
        rows = [
            (
                p.name,
                p.shapes[:48],
                ms(p.time_ns),
                round(p.tflops, 2),
                round(p.gbps, 1),
                round(p.intensity, 2),
                p.bound,
                round(100 * p.of_roof, 1),
            )
            for p in self.points
        ]
        mfu = f", MFU {100 * self.mfu:.1f} %" if self.peak_tflops else ""
        head = ("operator", "shapes", "ms", "TFLOP/s", "GB/s", "FLOP/B", "bound by", "% of roof")
        return Table.of(f"roofline: {self.tflops_per_rank:.2f} TFLOP/s per rank{mfu}", head, rows)


def roofline_of(
    found: Operators, span: int, ranks: int, peak_tflops: float = 0.0, peak_gbps: float = 0.0
) -> Roofline:
    """From sums over operators and shapes; peaks in TFLOP/s and GB/s of one device."""
    source = found.shapes if any(s.ops or s.bytes for s in found.shapes) else found.operators
    points = [
        _point(s, peak_tflops, peak_gbps)
        for s in source
        if s.kind == "compute" and s.time_ns and (s.ops or s.bytes)
    ]
    ops = sum(s.ops for s in found.kernels)
    rate = ops / span / 1e3 / ranks if span and ranks else 0.0
    return Roofline(
        ops, rate, rate / peak_tflops if peak_tflops else 0.0, peak_tflops, peak_gbps, points
    )


def _point(spent: Spent, peak_tflops: float, peak_gbps: float) -> Point:
    tflops, gbps = spent.ops / spent.time_ns / 1e3, spent.bytes / spent.time_ns
    intensity = spent.ops / spent.bytes if spent.bytes else 0.0
    bound, share = "", 0.0
    if peak_tflops and peak_gbps:
        compute, memory = tflops / peak_tflops, gbps / peak_gbps
        bound, share = ("compute", compute) if compute >= memory else ("memory", memory)
    return Point(
        spent.name,
        spent.shapes,
        spent.time_ns,
        spent.ops,
        spent.bytes,
        intensity,
        tflops,
        gbps,
        bound,
        share,
    )


def roofline(run: Run, peak_tflops: float = 0.0, peak_gbps: float = 0.0) -> Roofline:
    """Roofline points and MFU of a run."""
    low, high = run.span_ns
    return roofline_of(operators(run), high - low, len(run), peak_tflops, peak_gbps)
