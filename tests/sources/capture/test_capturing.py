"""A program captured in a block of itself, and the options of any capture."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.sources.capture.capturing import _untested, options_of


def train() -> None:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.slow
def test_a_block_becomes_all_ranks_and_leaves_nothing_behind() -> None:
    before = torch.nn.parallel.DistributedDataParallel, os.environ.get("RANK")
    with ck.capture(ranks=64) as c:
        train()
    assert (len(c.traces), c.traces.body_count) == (64, 1)
    assert [(x.type, x.count, x.bytes) for x in c.report.collectives] == [("ALL_REDUCE", 1, 4 * 72)]
    assert (torch.nn.parallel.DistributedDataParallel, os.environ.get("RANK")) == before
    assert torch.ones(2).sum().item() == 2  # values are real again


@pytest.mark.parametrize(("steps", "window"), [(None, None), ("2:3", (2, 3)), ((0, 4), (0, 4))])
def test_steps_that_are_asked_for(steps, window):
    assert options_of(4, "", steps, {}).steps == window


@pytest.mark.parametrize(
    ("ranks", "device", "steps", "said"),
    [
        (0, "", None, "0 ranks; give 1 or more"),
        (4, "", "3", "give FIRST:END, such as 2:3 for the third step"),
        (4, "", "a:b", "give FIRST:END"),
        (4, "", "3:3", "the second number must be larger"),
        (4, "", (-1, 2), "neither negative"),
        (4, "abacus", None, "no device 'abacus'; there are .*h100"),
    ],
)
def test_options_that_cannot_be_are_refused(ranks, device, steps, said):
    with pytest.raises(ConfigError, match=said):
        options_of(ranks, device, steps, {})


def test_a_device_is_found_by_the_start_of_its_name():
    found = options_of(4, "H100", None, {"train.py:3": 1.0}, local_size=2)
    assert found.device.startswith("h100")
    assert found.memory == pytest.approx(79.18 * 2**30)
    assert (found.local_size, found.values) == (2, {"train.py:3": 1.0})
    assert options_of(4, "cpu", None, {}).device == ""


def test_a_release_of_pytorch_that_was_not_tried_is_used_with_a_warning() -> None:
    assert [
        len(_untested(r)) for r in ("2.9.1+cu128", "2.15.0", "2.16.0.dev20261101", "3.0.1")
    ] == [0, 0, 1, 1]
    assert _untested("2.8.0")[0].startswith(
        "PyTorch 2.8.0 was not tried: capture is tested with 2.9 to 2.15"
    )
