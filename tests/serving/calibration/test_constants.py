"""Constants of an engine on a device, fitted to published figures."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.serving.calibration import Constants, constants_of


def test_a_device_as_the_engine_s_kernels_find_it() -> None:
    device = ck.load_machine("dgx-h100").devices[0]
    found = Constants(0.7, 0.8, 5.0, 0.5, 0.6, 1.0, 0.1, 2.0).on(device)
    assert (found.compute_efficiency, found.memory_efficiency) == (0.7, 0.8)
    assert found.kernel_overhead == pytest.approx(5e-6)
    assert found.peak == device.peak


def test_constants_are_there_for_the_pairs_that_were_fitted() -> None:
    fitted = constants_of("h100-sxm", "vllm")
    assert fitted is not None
    assert 0 < fitted.compute_efficiency <= 1
    assert 0 < fitted.attention_memory_efficiency <= 1
    assert constants_of("abacus", "vllm") is None
    assert constants_of("h100-sxm", "orca") is None
