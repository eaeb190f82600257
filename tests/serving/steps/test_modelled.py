"""Step times from operators, by the roofline of a device."""

from __future__ import annotations

import msgspec
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.calibration import Constants
from chakrakit.serving.steps import ModelledSteps
from chakrakit.workloads.description import Plan

PER_TOKEN = 2 * 2 * (256 * 3 * 256 + 256 * 256 + 3 * 256 * 512)
"""Operations of both layers' matmuls."""


@pytest.fixture
def compute(machine):
    """A device of 1 TFLOP/s with memory that takes no time to speak of."""
    return machine(peak={"bf16": 1e12}, memory_bandwidth=1e18)


HALF_THE_RATE = Constants(
    compute_efficiency=0.5,
    memory_efficiency=1.0,
    kernel_overhead_us=0.0,
    attention_compute_efficiency=0.25,
    attention_memory_efficiency=1.0,
    attention_overhead_us=0.0,
    expert_compute_efficiency=0.5,
    expert_memory_efficiency=1.0,
    expert_overhead_us=0.0,
    serial_ms=0.0,
    serial_per_request_ms=0.0,
    frontend_ms=0.0,
)


def test_a_step_takes_the_operations_of_its_tokens(operators, compute) -> None:
    cost = ModelledSteps(operators(), compute, "roofline").cost()
    assert cost.dense(10) == pytest.approx(10 * PER_TOKEN / 1e12, rel=1e-3)
    assert cost.head(3) == pytest.approx(3 * 2 * 1000 * 256 / 1e12, rel=1e-3)
    assert cost.shared is None
    assert cost.about == "operators by roofline on device"


def test_constants_of_an_engine_are_shares_of_the_device(operators, compute) -> None:
    steps = ModelledSteps(operators(), compute, "auto", HALF_THE_RATE)
    assert steps.compute == "roofline"
    assert steps.cost().dense(10) == pytest.approx(20 * PER_TOKEN / 1e12, rel=1e-3)


def test_every_kernel_of_an_engine_takes_a_little_longer(operators, compute) -> None:
    """Attention has its own addition, once for each of the two layers."""
    later = msgspec.structs.replace(HALF_THE_RATE, attention_overhead_us=10.0)
    plain, slow = (
        ModelledSteps(operators(), compute, "auto", c).cost().dense(10)
        for c in (HALF_THE_RATE, later)
    )
    assert slow - plain == pytest.approx(20e-6)


def test_a_pipeline_sends_each_token_between_its_stages(operators, compute) -> None:
    """1,000 tokens of 256 × 2 bytes at 10 GB/s, over two links of 1 µs."""
    one, two = (
        ModelledSteps(operators(Plan(pp=stages)), compute, "roofline").cost().dense(1000)
        for stages in (1, 2)
    )
    assert two - one == pytest.approx(512_000 / 10e9 + 2e-6, rel=1e-2)


def test_a_whole_padded_step_runs_more_kernels(operators, machine) -> None:
    """With 5 µs for every kernel, the 28 separate ones of each layer alone take 280 µs."""
    slow = machine(peak={"bf16": 1e18}, memory_bandwidth=1e18, kernel_overhead=5e-6)
    cost = ModelledSteps(operators(), slow, "roofline").cost(whole=True)
    assert cost.padded(16, 256) == pytest.approx(cost.dense(16) + cost.head(16) + 280e-6, rel=1e-3)


def test_a_device_without_rates_is_refused(operators, machine) -> None:
    with pytest.raises(ConfigError, match="has no peak rate or memory bandwidth"):
        ModelledSteps(operators(), machine(), "roofline")


def test_fewer_ranks_share_the_same_experts(operators, machine) -> None:
    """Where memory alone takes time, one rank reads twice the experts and tokens of each of two."""
    slow = machine(peak={"bf16": 1e18}, memory_bandwidth=1e9)
    model = {"experts": 4, "top_k": 1, "expert_ffn": 512}
    cost = ModelledSteps(operators(Plan(dp=2, ep=2), **model), slow, "roofline").cost()
    both, one = (cost.shared_by_fewer(1000, ranks) for ranks in (2, 1))
    assert cost.shared_by_fewer(0, 1) == 0
    assert both == pytest.approx(cost.shared(1000), rel=1e-6)
    assert one == pytest.approx(2 * both, rel=0.02)  # but for the router, which each has whole
