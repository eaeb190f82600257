"""Calls of operators: looked up, laid out beforehand, the short way found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chakrakit.replayer.runner import ANY_OVERLOAD
from chakrakit.replayer.runner.calls import ArgumentLayout, Bindings, bind, constant, find_operator

torch = pytest.importorskip("torch")
X, Y = {"slot": 0}, {"slot": 1}


@pytest.mark.parametrize(
    ("op", "args", "overload", "kwargs"),
    [
        ("aten::addmm", [X, X, Y, 1, 1], "default", {"beta": 1, "alpha": 1}),
        ("aten::sum", [X, [0], True, None], "dim_IntList", {}),
        # Recordings leave texts out: the default stands for them.
        ("aten::gelu", [X, None], "default", {"approximate": "none"}),
        ("aten::gelu_backward", [X, Y, None], "default", {"approximate": "none"}),
        # A number is a tensor to sums and products alone.
        ("aten::pow", [X, 2], "Tensor_Scalar", {}),
        ("aten::eq", [X, 0], "Scalar", {}),
        ("aten::mul", [X, 2.0], "Tensor", {}),
    ],
)
def test_the_overload_that_takes_the_arguments(
    op: str, args: list[Any], overload: str, kwargs: dict[str, Any]
) -> None:
    step = {"op": op, "overload": ANY_OVERLOAD, "args": args}

    assert find_operator(torch, step)._overloadname == overload
    assert step["kwargs"] == kwargs


def test_arguments_that_no_overload_takes() -> None:
    step = {"op": "aten::gelu", "overload": ANY_OVERLOAD, "args": [X, Y, [1]]}

    assert find_operator(torch, step) is None


A, B, C = {"slot": 0}, {"slot": 1}, {"slot": 2}


def called(args, kwargs=None, outs=(3,), free=(), operator=None):
    """What a call was given, and the slots after it."""
    given = []

    def note(*values, **named):
        given.append((values, named))
        return "result"

    slots = ["a", "b", "c", None, None]
    step = {"args": args, "kwargs": kwargs or {}, "outs": list(outs), "free": list(free)}
    layout = ArgumentLayout(args, lambda v: v)
    named = ArgumentLayout(list((kwargs or {}).values()), lambda v: v)
    bind(operator or note, step, slots, layout, named)()
    return (given[0] if given else None), slots


@pytest.mark.parametrize(
    ("args", "values"),
    [
        ([A], ("a",)),
        ([A, B, 2], ("a", "b", 2)),
        ([A, B, C], ("a", "b", "c")),
        ([1, A], (1, "a")),
        ([A, [B, None, C]], ("a", ["b", None, "c"])),
        ([2, 3], (2, 3)),
    ],
)
def test_tensors_are_taken_from_their_slots(args, values):
    given, slots = called(args)
    assert given == (values, {})
    assert slots[3] == "result"


def test_arguments_by_name_may_be_tensors_too():
    given, _ = called([A], {"out": B, "alpha": 2})
    assert given == (("a",), {"out": "b", "alpha": 2})
    assert called([A], {"alpha": 2})[0] == (("a",), {"alpha": 2})


@pytest.mark.parametrize("args", [[A], [A, [B]]])
def test_slots_that_are_needed_no_more_are_emptied(args):
    assert called(args, free=[0])[1] == [None, "b", "c", "result", None]
    assert called(args, free=[0, 1])[1][:2] == [None, None]


def test_several_results_go_where_they_belong_and_some_nowhere():
    _, slots = called([A], outs=[3, None, [4, None]], operator=lambda a: (1, 2, [3, 4]))
    assert slots[3:] == [1, 3]
    _, slots = called([A], outs=[None], operator=lambda a: 1)
    assert slots[3:] == [None, None]


def test_constants_are_what_pytorch_takes():
    torch = pytest.importorskip("torch")
    groups = [SimpleNamespace(group_name="7")]

    def made(value):
        return constant(torch, value, "cuda:1", groups)

    assert made({"dtype": "bfloat16"}) is torch.bfloat16
    assert made({"device": "cuda"}) == torch.device("cuda:1")
    assert made({"device": "cpu"}) == torch.device("cpu")
    assert made({"format": "channels_last"}) is torch.channels_last
    assert made({"number": "-inf"}) == float("-inf")
    assert (made({"group": 0}), made(3), made("none")) == ("7", 3, "none")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"format": "os"}, ValueError),
        ({"dtype": "load"}, TypeError),
        ({"dtype": "float32", "device": "cpu"}, ValueError),
        ({"code": "1"}, ValueError),
    ],
)
def test_nothing_else_of_pytorch_can_be_had(value, error):
    torch = pytest.importorskip("torch")
    with pytest.raises(error):
        constant(torch, value, "cpu", [])


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
