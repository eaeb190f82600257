"""Operators on the roofline, and the share of the peak that the run reaches."""

from __future__ import annotations

import pytest

from chakrakit.insight.operators import Operators, Spent, roofline, roofline_of


def test_roofline_of_a_product(linked):
    """The last layer of GPT-2: 8192 × 768 × 50257, two operations a multiply-add, bf16."""
    roof = roofline(linked("gpt2_124m_b8_s1024"), peak_tflops=989, peak_gbps=4800)
    point = next(p for p in roof.points if p.shapes == "[[8192,768],[768,50257]]")
    assert point.ops == 2 * 8192 * 768 * 50257
    assert point.tflops == pytest.approx(point.ops / point.time_ns / 1e3)
    assert 0 < point.of_roof <= 1
    assert roof.mfu == pytest.approx(roof.tflops_per_rank / 989)


def spent(name: str, ops: int, moved: int, kind: str = "compute") -> Spent:
    """Work of 1 µs."""
    return Spent(name=name, kind=kind, count=1, time_ns=1000, mean_ns=1000.0, ops=ops, bytes=moved)


def test_a_point_is_bound_by_whichever_roof_is_nearer():
    """Peaks of 100 TFLOP/s and 1000 GB/s: 10^8 operations and 10^6 bytes in a µs."""
    work = [spent("gemm", 8 * 10**7, 10**5), spent("add", 10**6, 5 * 10**5), spent("idle", 0, 0)]
    message = spent("sent", 1, 1, kind="comm")
    roof = roofline_of(Operators(0, [*work, message], work, [], [], []), 2000, 2, 100, 1000)
    assert [(p.name, p.bound) for p in roof.points] == [("gemm", "compute"), ("add", "memory")]
    assert [p.of_roof for p in roof.points] == pytest.approx([0.8, 0.5])
    assert [p.intensity for p in roof.points] == pytest.approx([800, 2])
    assert roof.tflops_per_rank == pytest.approx(81e6 / 2000 / 1e3 / 2)
    assert roof.mfu == pytest.approx(roof.tflops_per_rank / 100)


def test_without_peaks_there_are_rates_and_no_shares():
    roof = roofline_of(Operators(0, [spent("gemm", 10**6, 0)], [], [], [], []), 0, 0)
    assert (roof.points[0].tflops, roof.points[0].bound, roof.points[0].of_roof) == (1.0, "", 0.0)
    assert (roof.mfu, roof.tflops_per_rank) == (0.0, 0.0)
    assert "MFU" not in roof.table().title
