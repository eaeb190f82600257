"""Steps of an engine that pads all queries and all context."""

from __future__ import annotations

import pytest

from chakrakit.serving.steps.modelled import (
    MaskedAttention,
    line,
    measurements_for,
    separate_kernels,
)


def test_measurements_belong_to_devices_by_name() -> None:
    found = measurements_for("h200-sxm")
    assert found is not None
    assert found.name == "h200"
    assert measurements_for("h2000") is None
    assert measurements_for("h100-sxm") is None


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
