"""Calls laid out beforehand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.calling import Layout, bind, constant

A, B, C = {"slot": 0}, {"slot": 1}, {"slot": 2}


def called(args, kwargs=None, outs=(3,), free=(), operator=None):
    """What a call was given, and the slots after it."""
    given = []

    def note(*values, **named):
        given.append((values, named))
        return "result"

    slots = ["a", "b", "c", None, None]
    step = {"args": args, "kwargs": kwargs or {}, "outs": list(outs), "free": list(free)}
    layout = Layout(args, lambda v: v)
    named = Layout(list((kwargs or {}).values()), lambda v: v)
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
