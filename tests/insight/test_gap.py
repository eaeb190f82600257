"""Parts of measured − predicted: waiting at the beginning of a step, and names that differ."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.gap import _copied_inside, _family, _heads, _kernels
from chakrakit.trace.sets import Times, run_of


@pytest.mark.parametrize(
    ("predicted", "measured"),
    [
        ("aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward"),
        ("aten::cudnn_convolution", "aten::convolution"),
        ("triton_poi_fused_0", "triton_red_fused_add_1"),
        ("aten::add", "aten::add_"),
    ],
)
def test_an_operator_has_one_name_in_both_runs(predicted: str, measured: str) -> None:
    assert _family(predicted) == _family(measured)


def test_what_a_step_waits_for_before_its_first_kernel_is_told_apart() -> None:
    """The kernel of step 0 ends at 10 µs, a batch is there at 40, and the kernel of step 1 starts at 45."""
    t = ck.TraceBuilder()
    t.comp("kernel", stream=7, step=0, is_cpu_op=False)
    t.comp("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", step=1, is_cpu_op=True)
    t.comp("kernel", stream=7, step=1, is_cpu_op=False)
    start, end = np.array([0, 5, 45]) * 1000, np.array([10, 40, 60]) * 1000
    run = run_of(ck.TraceSet([t.build()]), {0: Times(start, end)}, tick_ps=1000)
    assert _heads(run) == {"data": 30_000, "host": 5_000}


def test_copies_within_a_device_are_told_from_those_to_and_from_the_host() -> None:
    t = ck.TraceBuilder()
    for name in ("Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)", "gemm"):
        t.comp(name, stream=7, is_cpu_op=False)
    start, end = np.array([0, 10, 30]) * 1000, np.array([10, 30, 70]) * 1000
    run = run_of(ck.TraceSet([t.build()]), {0: Times(start, end)}, tick_ps=1000)
    assert _copied_inside(run) == 10_000


@pytest.mark.parametrize("count", [3, 8, 20])
def test_operators_named_or_not_come_to_all_computation(count: int) -> None:
    """Half of them are in both runs; those that differ most are named, and none of the others is lost."""
    a = {f"op{i}": 10.0 * i for i in range(count)}
    b = {f"op{i}": 3.0 * i * i for i in range(count // 2, 3 * count // 2)}
    parts = list(_kernels((a, b), 5000.0, 7000.0))
    assert sum(part.predicted_ns for part in parts) == pytest.approx(5000)
    assert sum(part.measured_ns for part in parts) == pytest.approx(7000)
    named = [abs(part.measured_ns - part.predicted_ns) for part in parts[:-2]]
    assert named == sorted(named, reverse=True)
