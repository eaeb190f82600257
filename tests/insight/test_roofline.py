"""Operators on the roofline, and the share of the peak that the run reaches."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.insight.operators import Operators, Spent, _computed_in, roofline, roofline_of


def test_roofline_of_a_product(linked):
    """The last layer of GPT-2: 8192 × 768 × 50257, two operations a multiply-add, bf16."""
    roof = roofline(linked("gpt2_124m_b8_s1024"), peak_tflops=989, peak_gbps=4800)
    point = next(p for p in roof.points if p.shapes == "[[8192,768],[768,50257]]")
    assert point.ops == 2 * 8192 * 768 * 50257
    assert point.tflops == pytest.approx(point.ops / point.time_ns / 1e3)
    assert 0 < point.of_roof <= 1
    assert roof.hfu == pytest.approx(roof.tflops_per_rank / 989)
    assert 0 < roof.mfu < roof.hfu  # its attention computes scores again backward


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


def test_an_operator_is_under_the_roof_of_its_own_type():
    """50 TFLOP/s are 5 % of a bf16 peak of 1,000 and 75 % of a float32 one of 67; 300 must be TF32."""
    work = [
        Spent(
            name=n,
            kind="compute",
            count=1,
            time_ns=1000,
            mean_ns=1000.0,
            ops=ops,
            bytes=10,
            dtype=t,
        )
        for n, ops, t in (
            ("a", 5 * 10**7, "bf16"),
            ("b", 5 * 10**7, "fp32"),
            ("c", 3 * 10**8, "fp32"),
        )
    ]
    peaks = {"bf16": 1000.0, "tf32": 500.0, "fp32": 67.0}
    roof = roofline_of(Operators(0, work, work, [], [], work), 3000, 1, 1000, 1000, peaks)
    assert [(p.dtype, round(p.of_roof, 2)) for p in roof.points] == [
        ("bf16", 0.05),
        ("fp32", 0.75),
        ("tf32", 0.6),
    ]
    assert roof.roof_text == "1,000 TFLOP/s in bf16, 500 in tf32, 67 in fp32 and 1,000 GB/s"
    assert roof.table().title.endswith(roof.roof_text)


def test_simulated_products_have_the_peaks_of_their_types():
    """Generated in bf16 and in float32 for one H100: 989 and 67 TFLOP/s."""
    for dtype, peak in (("bf16", 989.4), ("fp32", 67.0)):
        traces = ck.generate(model="gpt3-125m", seq=64, dtype=dtype).traces
        roof = ck.analyze(ck.simulate(traces, "dgx-h100", compute="roofline").run()).roofline
        product = max(roof.points, key=lambda p: p.ops)
        assert (product.dtype, roof.peaks[dtype]) == (dtype, pytest.approx(peak, rel=0.01))


def test_operators_compute_in_the_types_of_their_tensors():
    """Only products have classes by type; others are as wide as their tensors. A CPU has no TF32."""
    fp32, fp16 = '["Tensor(float)"]', '["Tensor(c10::Half)"]'
    assert _computed_in("aten::gelu", "[[64, 2048]]", fp32, True) == "fp32"
    assert _computed_in("aten::gelu", "[[64, 2048]]", fp16, True) == "fp16"
    masked = '["Tensor(bool)", "Tensor(float)", "Tensor(float)"]'
    assert _computed_in("aten::where", "[[8], [8], [8]]", masked, True) == "fp32"
    image = ("[[1, 3, 8, 8], [4, 3, 3, 3]]", '["Tensor(float)", "Tensor(float)"]')
    assert _computed_in("aten::convolution", *image, False) == "fp32"
    assert _computed_in("aten::convolution", *image, True) == "tf32"


@pytest.mark.parametrize("peaks", [(100, 0), (0, 1000)])
def test_under_one_roof_of_two_nothing_says_what_bounds_an_operator(peaks):
    roof = roofline_of(Operators(0, [spent("gemm", 10**6, 10**5)], [], [], [], []), 0, 0, *peaks)
    assert (roof.points[0].bound, roof.points[0].of_roof) == ("", 0.0)
