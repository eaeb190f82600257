"""Recordings beside their machine: what is slower than it allows is named without a healthy run."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.diagnosis.clock import clock_check
from chakrakit.insight.diagnosis.expected import ExpectedTime, _by_kind, slow_operators
from chakrakit.machines import load_machine
from support.paths import DATA

FAULTS = {
    "clock_1005": ["held-back-clock"],
    "float32": ["float32-products"],
    "unfused_attention": ["unfused-attention", "float32-products"],
    "healthy": [],
}
"""Programs on one H200: with its clock locked at 1,005 MHz, in float32 instead of bf16, with flash attention
switched off (its products are then float32), and as they should be."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_a_recording_is_named(name):
    run, _ = ck.link(DATA / "h200_faults" / name)
    found = ck.analyze(run)
    assert found.expected.machine == "NVIDIA H200"
    assert [c.kind for c in found.culprits] == FAULTS[name]


def test_a_machine_can_be_named_and_a_simulated_run_is_not_held_beside_one(linked):
    run = linked("two_streams")
    assert ck.analyze(run, machine="dgx-h200").expected.operators[0].expected_ns > 0
    simulated = ck.simulate(run, compute="measured", communication="measured").run()
    assert ck.analyze(simulated, machine="dgx-h200").expected is None


def test_a_clock_is_judged_by_how_many_operations_agree_how_well():
    """The same factor is a finding by many operations that agree, and none by a few that do not."""
    device = load_machine("dgx-h200").devices[0]
    scattered = np.random.default_rng(1).normal(0.0, 0.15, 100)
    assert clock_check(scattered, device).verdict == "as expected"
    assert clock_check(scattered + 0.2, device).verdict == "held back"
    few = np.array([-0.4, 0.2, 0.25, 0.7])
    assert clock_check(few, device).verdict == "could not tell"
    assert clock_check(np.zeros(0), device) is None


@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-a100", "dgx-b200", "mi300x"])
def test_no_clock_is_blamed_on_a_device_of_which_no_healthy_recording_is_known(machine):
    """Its profile may be as far off on every operation, whether it was timed there or carried over."""
    logs = np.random.default_rng(1).normal(1.0, 0.15, 100)
    assert clock_check(logs, load_machine("dgx-h200").devices[0]).verdict == "held back"
    assert clock_check(logs, load_machine(machine).devices[0]).verdict == "could not tell"


def test_only_operators_whose_work_is_known_are_called_slow():
    device = load_machine("dgx-h200").devices[0]
    slow = [ExpectedTime(n, "vector", 1, 9e6, 1e6, 9.0) for n in ("aten::add", "vllm::moe_forward")]
    assert [c.detail.split()[0] for c in slow_operators(slow, 2e7, device)] == ["aten::add"]


def test_a_kind_s_ratio_is_that_of_all_its_operators_together():
    """And kinds that hardly take time are left out."""
    times = [("mm", "matmul", 30, 10), ("bmm", "matmul", 50, 40), ("add", "vector", 0.1, 1)]
    operators = [
        ExpectedTime(o, kind, 1, took, needs, took / needs) for o, kind, took, needs in times
    ]
    assert _by_kind(operators, total=80.1) == {"matmul": 80 / 50}
