"""Programs that use what exists on accelerators alone, captured where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import chakrakit as ck
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


def test_a_type_that_pytorch_changes_stays_on_the_device_and_a_copy_to_the_host_leaves_it() -> None:
    """Routers of experts take their softmax in another type than the logits'."""
    with ck.capture(ranks=1, device="h100") as c:
        model = torch.nn.Linear(8, 4, device="cuda", dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            logits = model(torch.ones(16, 8, device="cuda", dtype=torch.bfloat16))
            weights, _ = torch.softmax(logits, -1, dtype=torch.float32).topk(2)
            weights.detach().to("cpu", torch.float64).exp()
            weights.sum().backward()
            optimizer.step()
    on_device = {n["name"]: not n["is_cpu_op"] for n in c.traces.trace(0).nodes.to_pylist()}
    found = [on_device[f"aten::{name}"] for name in ("_softmax", "topk", "exp")]
    assert found == [True, True, False]
