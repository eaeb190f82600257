"""Results of operators on fake tensors, made without the general machinery."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from chakrakit.sources.capture.observing.shortcuts import Results, fits, view

aten = torch.ops.aten


@pytest.fixture
def mode():
    with FakeTensorMode(allow_non_fake_inputs=True) as made:
        yield made


@pytest.mark.parametrize(
    ("func", "args", "shape", "stride"),
    [
        (aten.t.default, (), (3, 2), (1, 3)),
        (aten.view.default, ([6],), (6,), (1,)),
        (aten.unsqueeze.default, (0,), (1, 2, 3), (6, 3, 1)),
        (aten.select.int, (0, 1), (3,), (1,)),
    ],
)
def test_a_view_is_what_the_general_way_would_make(mode, func, args, shape, stride):
    tensor = torch.empty(2, 3)
    made = view(func, (tensor, *args), {})
    assert (tuple(made.shape), made.stride()) == (shape, stride)
    assert made.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    assert made.device.type == "cpu"


def test_the_second_result_is_remembered_and_has_storage_of_its_own(mode):
    results, calls = Results(), []

    class Counted:
        """`aten.mm` that counts how often it is run."""

        _schema, tags = aten.mm.default._schema, aten.mm.default.tags

        def __call__(self, *args):
            calls.append(args)
            return aten.mm.default(*args)

    mm, a, b = Counted(), torch.empty(2, 3), torch.empty(3, 4)
    first, second = (results.run(mm, (a, b), {}) for _ in range(2))
    assert len(calls) == 1
    assert first.shape == second.shape == (2, 4)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    results.run(mm, (a, torch.empty(3, 5)), {})
    assert len(calls) == 2  # other sizes are another result


def test_operators_in_place_give_back_their_first_tensor(mode):
    a, b = torch.empty(2, 3), torch.empty(2, 3)
    assert Results().run(aten.add_.Tensor, (a, b), {}) is a


def test_several_results_come_back_as_a_tuple(mode):
    results, x = Results(), torch.empty(4, 6)
    args = (x, [6], None, None, 1e-5)
    for _ in range(2):
        made = results.run(aten.native_layer_norm.default, args, {})
        assert [tuple(t.shape) for t in made] == [(4, 6), (4, 1), (4, 1)]


def test_only_plain_fake_tensors_fit(mode):
    assert fits((torch.empty(2),))
    assert not fits((torch.tensor(3.0),))  # whose value is known
    assert not fits((3,))


def test_a_number_may_stand_before_the_list(mode):
    """Powers of a number, as Adam with `capturable` asks for: it was once taken for the list."""
    steps = [torch.empty(()), torch.empty(3)]
    made = Results().run(aten._foreach_pow.ScalarAndTensor, (0.9, steps), {})
    assert [tuple(t.shape) for t in made] == [(), (3,)]
