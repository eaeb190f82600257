"""Hooks into the script's own program: steps, modules, checkpoints."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint

from chakrakit.sources.capture.observing import BACKWARD, OPTIMIZER, RECOMPUTE, Whereabouts
from chakrakit.sources.capture.observing.whereabouts import FORWARD
from chakrakit.sources.capture.standins import program


@pytest.fixture
def where():
    return Whereabouts()


@pytest.fixture
def steps(patches, where):
    """How many steps have ended."""
    found = []
    handles = program.install(patches, where, lambda: found.append(where.phase))
    yield found
    for handle in handles:
        handle.remove()


def optimizer():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return torch.optim.SGD([parameter], 0.1)


def test_a_step_ends_with_the_optimizer_s(steps):
    one = optimizer()
    one.step()
    one.step()
    assert steps == [FORWARD, FORWARD]


def test_of_several_optimizers_each_must_have_stepped(steps):
    first, second = optimizer(), optimizer()
    first.step()
    assert steps == []
    second.step()
    assert len(steps) == 1


def test_one_that_never_steps_is_not_waited_for_long(steps):
    first, _ = optimizer(), optimizer()
    for _ in range(2):
        first.step()
    assert steps == []
    first.step()
    first.step()
    assert len(steps) == 2


def test_phases_are_told_while_they_last(steps, where):
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(where.phase))
    y.sum().backward()
    one = optimizer()
    one.register_step_pre_hook(lambda *_: seen.append(where.phase))
    one.step()
    assert seen == [BACKWARD, OPTIMIZER]
    assert where.phase == FORWARD


def test_what_a_checkpoint_does_in_backward_is_recomputation(steps, where):
    seen = []

    def block(x):
        seen.append(where.phase)
        return (x * 2).sin()

    run = torch.utils.checkpoint.checkpoint  # as it is while a script is captured
    run(block, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
    assert seen == [FORWARD, RECOMPUTE]


def test_fake_parameters_change_in_place_and_shared_ones_stay_shared(steps, fake):
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
    )
    model[1].weight = model[0].weight
    before = model[0].weight
    model.to(torch.bfloat16)
    assert model[0].weight is model[1].weight is before
    assert before.dtype is torch.bfloat16
