"""Parts of measured − predicted: waiting at the beginning of a step, and names that differ."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.gap import _copied_inside, _family, _heads
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
