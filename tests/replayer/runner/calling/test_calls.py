"""Calls laid out beforehand: tensors are taken from slots, results put there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.calling.calls import Layout, bind, constant


def slot(number):
    return {"slot": number}


def called(step, slots):
    """What an operator that gives back what it gets leaves in the slots."""
    plain = Layout(step["args"], lambda v: v)
    named = Layout(list(step.get("kwargs", {}).values()), lambda v: v)
    bind(lambda *given, **more: (*given, *more.items()), step, slots, plain, named)()
    return slots


def test_tensors_and_lists_of_them_are_filled_in_where_they_belong():
    made = Layout([slot(1), 5, [slot(0), None]], lambda v: v)
    assert made.fill(["a", "b"]) == ["b", 5, ["a", None]]
    assert made.leading == [1]
    assert Layout([5, slot(1)], lambda v: v).leading == []


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ({"args": [slot(0)], "outs": [2]}, ("a",)),
        ({"args": [slot(0), slot(1), 5], "outs": [2]}, ("a", "b", 5)),
        ({"args": [slot(1), slot(0), slot(0)], "outs": [2]}, ("b", "a", "a")),
        ({"args": [5, slot(0)], "outs": [2]}, (5, "a")),
        ({"args": [[slot(0), slot(1)]], "outs": [2]}, (["a", "b"],)),
        ({"args": [slot(0)], "kwargs": {"alpha": 3}, "outs": [2]}, ("a", ("alpha", 3))),
        ({"args": [slot(0)], "kwargs": {"out": slot(1)}, "outs": [2]}, ("a", ("out", "b"))),
    ],
)
def test_calls_of_every_shape_give_the_same(step, result):
    assert called(step, ["a", "b", None])[2] == result
    assert called({**step, "free": [0]}, ["a", "b", None]) == [None, "b", result]
    assert called({**step, "free": [0, 1]}, ["a", "b", None]) == [None, None, result]


def test_several_results_go_where_they_are_wanted():
    step = {"args": [slot(0), slot(1)], "outs": [2, None]}
    assert called(step, ["a", "b", None]) == ["a", "b", "a"]
    nested = {"args": [slot(0)], "outs": [[2, None]], "free": [0]}
    plain = Layout(nested["args"], lambda v: v)
    slots = ["a", None, None]
    bind(lambda _: ["x", "y"], nested, slots, plain, Layout([], lambda v: v))()
    assert slots == [None, None, "x"]


TORCH = SimpleNamespace(device=lambda name: f"device {name}", channels_last="cl", float32="f32")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, 5),
        ({"device": "cpu"}, "device cpu"),
        ({"device": "cuda"}, "device cuda:1"),
        ({"format": "channels_last"}, "cl"),
        ({"number": "-inf"}, float("-inf")),
        ({"group": 0}, "g"),
    ],
)
def test_constants_as_pytorch_takes_them(value, found):
    groups = [SimpleNamespace(group_name="g")]
    assert constant(TORCH, value, "cuda:1", groups) == found


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"format": "__class__"}, "an argument of kind 'format'"),
        ({"code": "x"}, "an argument of kind 'code'"),
        ({"device": "cpu", "number": "1"}, "an argument with 2 meanings"),
    ],
)
def test_a_constant_of_another_kind_is_refused(value, said):
    with pytest.raises(ValueError, match=said):
        constant(TORCH, value, "cpu", [])
