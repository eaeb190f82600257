"""The step, phase and module that the program is in."""

from __future__ import annotations

import pytest
import torch

from chakrakit.sources.capture.observing import BACKWARD, OPTIMIZER, RECOMPUTE, Whereabouts
from chakrakit.sources.capture.observing.whereabouts import FORWARD


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())


def test_phases_nest_and_forward_inside_backward_is_recomputation():
    where = Whereabouts()
    assert where.phase == FORWARD
    with where.in_phase(BACKWARD):
        assert where.phase == BACKWARD
        with where.in_phase(FORWARD):
            assert where.phase == RECOMPUTE
    with pytest.raises(RuntimeError), where.in_phase(OPTIMIZER):
        raise RuntimeError
    assert where.phase == FORWARD


def test_modules_are_named_from_the_outermost_that_runs(model):
    where = Whereabouts()
    where.enter(model, ())
    where.enter(model[0], ())
    assert where.modules[where.module] == "0"
    where.leave()
    where.leave()
    where.leave()  # a module that was left without being entered changes nothing
    assert where.modules == ["", "0", "1"]
    assert where.modules[where.module] == ""
    assert list(where.roots.values()) == [model]


def test_a_module_that_belongs_to_no_root_counts_with_the_one_around_it(model):
    where = Whereabouts()
    where.enter(model, ())
    where.enter(model[1], ())
    where.enter(torch.nn.ReLU(), ())
    assert where.modules[where.module] == "1"


def test_a_backward_operator_belongs_to_the_module_that_made_its_node(model):
    where, seen = Whereabouts(), []

    def leave(*_):
        assert where.module >= 0  # operators ask for it as they are made
        where.leave()

    for module in (model, *model):
        module.register_forward_pre_hook(where.enter)
        module.register_forward_hook(leave)
    out = model(torch.ones(1, 2, requires_grad=True))
    hooked = out.grad_fn.next_functions[0][0]
    hooked.register_prehook(lambda grads: seen.append(where.modules[where.module]))
    with where.in_phase(BACKWARD):
        out.sum().backward()
    assert seen == ["0"]
