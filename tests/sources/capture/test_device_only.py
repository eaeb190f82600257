"""Programs that use what exists on accelerators alone, captured where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chakrakit import validate

Captured = Callable[..., Any]


@pytest.mark.slow
def test_synchronised_normalisation_gathers_statistics_and_reduces_their_gradients(
    captured: Captured,
) -> None:
    report, traces = captured("device_only", "normalised", ranks=4, device="h100")
    channels = 8
    assert [(c.type, c.count, c.bytes) for c in report.collectives] == [
        ("ALL_GATHER", 1, 4 * (2 * channels + 1)),  # mean, deviation and count of one rank
        ("ALL_REDUCE", 1, 4 * 2 * channels),
    ]
    names = [str(n) for n in traces[0].column("name", "")]
    assert "aten::batch_norm_stats" in names
    assert "aten::batch_norm_backward_elemt" in names
    assert validate(traces).ok


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_a_sharded_model_on_a_numbered_device(captured: Captured, strategy: str) -> None:
    report, traces = captured("device_only", strategy, ranks=4, device="h100")
    whole = 4 * 2 * 64 * 64
    assert [(c.type, c.count, c.bytes) for c in report.collectives] == [
        ("ALL_GATHER", 1, whole // 4),
        ("REDUCE_SCATTER", 1, whole),
    ]
    assert validate(traces).ok
