"""Steps of an engine that pads all queries and all context."""

from __future__ import annotations

import pytest

from chakrakit.machines import load_machine
from chakrakit.serving.steps.modelled import (
    MaskedAttention,
    line,
    measurements_for,
    separate_kernels,
)


def test_measurements_belong_to_a_device_or_are_carried_to_those_with_a_profile(machine) -> None:
    own, carried = (load_machine(name).devices[0] for name in ("dgx-h200", "dgx-a100"))
    assert measurements_for(own) is measurements_for(carried)
    assert measurements_for(own).name == "h200"
    assert measurements_for(machine(peak={"bf16": 1e12}, memory_bandwidth=1e12).devices[0]) is None


def test_a_device_with_a_slower_memory_takes_longer_for_the_same_padded_step(operators) -> None:
    """64 queries over 16,384 keys move bytes on both: an A100 takes 4.8 / 2.039 times what an H200 takes."""
    h200, a100 = (
        MaskedAttention(operators(), load_machine(name).devices[0])
        for name in ("dgx-h200", "dgx-a100")
    )
    assert a100.seconds(64, 16384) == pytest.approx(4800 / 2039 * h200.seconds(64, 16384))


@pytest.mark.parametrize(("x", "us"), [(5, 20), (0, 10), (20, 50), (-20, 0)])
def test_between_and_beyond_two_points(x: float, us: float) -> None:
    """10 µs at 0 and 30 µs at 10; never less than nothing."""
    assert line([(10, 30.0), (0, 10.0)], x) == pytest.approx(us * 1e-6)


def test_attention_that_nobody_measured_takes_its_arithmetic_or_its_copies(
    operators, machine
) -> None:
    """Ten queries and a hundred keys: 4 × 10 × 100 × 256 operations, or copies of keys and values."""
    fast = machine(peak={"bf16": 1e12}, memory_bandwidth=1e18).devices[0]
    assert MaskedAttention(operators(), fast).seconds(10, 90) == pytest.approx(1.024e-6)
    slow = machine(peak={"bf16": 1e18}, memory_bandwidth=1e9).devices[0]
    copied = 2 * 2 * 100 * 64 * (2 * 4 + 2 * 4) + 2 * 10 * 100
    assert MaskedAttention(operators(), slow).seconds(10, 90) == pytest.approx(copied / 1e9)


def test_kernels_of_a_layer_beyond_its_operators(operators) -> None:
    """Seven for each of two norms, ten for rotary positions, two to keep and two to read the cache."""
    found = separate_kernels(operators())
    assert sum(count for count, _ in found) == 2 * 7 + 10 + 2 + 2
    assert found[0] == (8, 8 * 256)
