"""The short way to an operator, taken only if it is the same operator."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.calling import Bindings

torch = pytest.importorskip("torch")
aten = torch.ops.aten


def step(op, *args, overload="Tensor", **kwargs):
    return {"op": op, "overload": overload, "args": list(args), "kwargs": kwargs}


X = {"slot": 0}


def test_functions_of_the_same_name_are_tried():
    bindings = Bindings(torch)
    assert bindings.candidate(step("aten::add", X)) is torch._C.TensorBase.add
    assert bindings.candidate(step("aten::zeros", [4])) is torch._C._VariableFunctions.zeros
    assert bindings.candidate(step("aten::no_such_thing", X)) is None
    assert bindings.candidate(step("c10d::allreduce_", X)) is None


def test_what_goes_under_another_name_is_found_too():
    bindings, x = Bindings(torch), torch.ones(2)
    copied = bindings.candidate(step("aten::_to_copy", X))(x, dtype=torch.float64)
    assert (copied.dtype, copied.data_ptr() == x.data_ptr()) == (torch.float64, False)
    assert bindings.candidate(step("aten::_local_scalar_dense", X))(x[0]) == 1.0


def test_a_way_is_the_same_if_the_dispatcher_saw_that_operator_first():
    bindings, x = Bindings(torch), torch.ones(2)
    add = step("aten::add", X, X)
    assert bindings.same(aten.add.Tensor, add, lambda: x.add(x))
    div = step("aten::div", X, 2, overload="Scalar")
    assert not bindings.same(aten.div.Scalar, div, lambda: x.div(2))
    assert (bindings.knows_not(div), bindings.knows_not(add)) == (True, False)


def test_what_was_found_holds_for_all_calls_like_it():
    bindings, x, tried = Bindings(torch), torch.ones(2), []

    def call():
        tried.append(1)
        x.mul(x)

    for other in ({"slot": 1}, {"slot": 5}):
        assert bindings.same(aten.mul.Tensor, step("aten::mul", X, other), call)
    assert len(tried) == 2  # each call is made once, whether it is watched or not


def test_a_way_that_fails_is_none():
    bindings = Bindings(torch)
    assert not bindings.same(aten.mm.default, step("aten::mm", X, X), lambda: torch.ones(2).mm(3))
