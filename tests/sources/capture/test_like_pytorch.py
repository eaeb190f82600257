"""Stand-ins do what PyTorch does on a real machine, also where scripts rarely look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import chakrakit as ck
from chakrakit import validate

Captured = Callable[..., Any]
_IMPORTED_BEFORE = torch.nn.parallel.DistributedDataParallel


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("device", ["", "h100"])
def test_autocast_for_gpus_follows_their_rules(captured: Captured, kind: str, device: str) -> None:
    _, traces = captured("autocast", kind, ranks=1, device=device)  # the script checks its types
    assert validate(traces).ok


@pytest.mark.slow
def test_autocast_on_the_host_keeps_its_own_rules_after_a_capture() -> None:
    with ck.capture(ranks=1):
        model = torch.nn.Linear(4, 4, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            with torch.autocast("cuda"):
                model(torch.randn(2, 4, device="cuda")).softmax(-1).sum().backward()
            optimizer.step()
    with torch.autocast("cpu"):
        assert torch.ones(2, 2).mm(torch.ones(2, 2)).softmax(-1).dtype is torch.bfloat16


@pytest.mark.slow
def test_buffers_are_sent_once_in_an_accumulated_step(captured: Captured) -> None:
    """Only before a forward that follows one with gradients to reduce, evaluations included."""
    report, _ = captured("accumulating", ranks=2)
    buffers = 4 * 2 * 8 + 8
    assert [(c.type, c.count, c.bytes) for c in report.collectives] == [
        ("ALL_REDUCE", 1, 4 * (8 * 8 + 3 * 8)),
        ("BROADCAST", 2, buffers),
    ]


@pytest.mark.slow
def test_shared_weights_stay_shared_when_cut_over_ranks(captured: Captured) -> None:
    report, _ = captured("tied", ranks=4)
    assert report.kinds[0].parameters == 32 * 16 + 16 * 16 + 16


@pytest.mark.slow
def test_a_class_imported_before_the_capture_is_replaced_too() -> None:
    with ck.capture(ranks=2) as c:
        torch.distributed.init_process_group("gloo")
        model = _IMPORTED_BEFORE(torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with model.join():
            for _ in range(2):
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()
    told = [(x.type, x.count, x.bytes) for x in c.report.collectives]
    assert told == [("ALL_REDUCE", 3, 4 * 72 + 4 + 4)]  # gradients, and twice that it goes on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook", "reduced"),
    [
        ("fp16", [2 * 64 * 64]),
        ("own", [4 * 64 * 64]),
        # Nothing is left uncompressed, whose sum NCCL does not launch; then the two factors.
        ("power", [4 * 2 * 64, 4 * 2 * 64]),
    ],
)
def test_a_communication_hook_reduces_in_its_own_way(
    captured: Captured, hook: str, reduced: list[int]
) -> None:
    _, traces = captured("hooked", hook, ranks=4, steps=(2, 3))
    nodes = traces.trace(0).nodes.to_pylist()
    assert [n["comm_size"] for n in nodes if n["comm_size"] is not None] == reduced


@pytest.mark.slow
def test_a_step_ends_when_every_optimizer_has_stepped(captured: Captured) -> None:
    """The phases of one step, in order: the optimizers' part comes last and once."""
    _, traces = captured("hooked", "own", ranks=4, steps=(2, 3))
    phases = [n["phase"] for n in traces.trace(0).nodes.to_pylist() if n["stream"] is not None]
    assert list(dict.fromkeys(phases)) == ["forward", "backward", "optimizer"]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
