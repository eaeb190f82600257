"""What a replay says of the recording it was made from."""

from __future__ import annotations

import pytest

from chakrakit.replayer import ReplayOptions, replay
from chakrakit.replayer.result import compare_with_recording
from chakrakit.replayer.session import prepare
from support.recorded import DATA, linked


def compared(before, after):
    return compare_with_recording(
        step_ns=2_000_000,
        kernel_ns=1_000_000,
        kernels=[(before, after)],
        replayed_step_ns=1_900_000,
        replayed_kernel_ns=1_010_000,
    )


def test_the_same_kernels_as_often():
    found = compared({"gemm": 3, "copy": 1}, {"copy": 1, "gemm": 3})
    assert found.kernels_equal
    assert found.differences == []
    assert found.sentence == (
        "against the recording: 4 of 4 kernels the same, kernels 1.000 ms +1.0%, "
        "step 2.000 ms -5.0%"
    )


def test_what_differs_is_named():
    found = compared({"gemm": 3, "copy": 1}, {"gemm": 2, "spin": 1, "copy": 1})
    assert not found.kernels_equal
    assert (found.kernels, found.kernels_same) == (4, 3)
    assert {(d.name, d.recorded, d.replayed) for d in found.differences} == {
        ("gemm", 3, 2),
        ("spin", 0, 1),
    }


@pytest.mark.slow
def test_a_recorded_mixture_of_experts_replays_whole():
    """Two kinds of routing: a loop over experts by index, and rows sorted by expert."""
    pytest.importorskip("torch", reason="pip install torch")
    report = replay(str(DATA / "moe_tiny" / "et.json.gz"), ReplayOptions(), iterations=1, warmup=1)
    assert report.coverage.count == 1
    assert report.stand_ins == []


def test_recorded_kernels_are_part_of_what_is_prepared():
    (original,) = prepare(linked("two_streams"), ReplayOptions(device="cuda")).original
    assert sum(original.kernels.values()) == 55
    assert original.kernel_ns > 0
