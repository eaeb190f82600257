"""Calls from shapes, types and plain values, where which tensors were the same is not known."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.from_shapes import Written, made_call
from chakrakit.replayer.runner import ANY_OVERLOAD
from chakrakit.replayer.tensors import Unsupported

FLOAT = "Tensor(float)"


def call(types: list, shapes: list, values: list | None = None, name: str = "aten::mul", **more):
    """The arguments of a call, tensors as (type, shape, strides)."""
    made: list[tuple] = []

    def make(dtype: str, shape, strides) -> int:
        made.append((dtype, list(shape), list(strides)))
        return len(made) - 1

    one = made_call(Written(name, shapes, types, [[]] * len(types), values or [], **more), make)
    assert (one.op, one.overload) == (name, ANY_OVERLOAD)

    def shown(argument):
        if isinstance(argument, list):
            return [shown(a) for a in argument]
        return (
            made[argument["slot"]]
            if isinstance(argument, dict) and "slot" in argument
            else argument
        )

    return shown(one.args)


def test_tensors_are_made_and_plain_values_read() -> None:
    found = call([FLOAT, "Int", "Bool", "None"], [[2, 3], [], [], []], ["", "4", "True", ""])
    assert found == [("float32", [2, 3], []), 4, True, None]


def test_a_number_where_a_tensor_could_stand_is_a_number() -> None:
    assert call([FLOAT, "double"], [[4], []])[1] == 1.0
    with pytest.raises(Unsupported):
        call(["<dtype>", None], [[4], []])


def test_lists_of_tensors_are_made_one_by_one() -> None:
    kinds = "GenericList[Tensor(float),Tensor(float)]"
    assert call([kinds], [[[2], [3]]], name="aten::cat") == [
        [("float32", [2], []), ("float32", [3], [])]
    ]
    assert call(["GenericList[Int,Int]"], [[]], ["[1, 2]"], name="aten::sum") == [[1, 2]]


def test_a_result_that_was_to_be_allocated_is_left_out() -> None:
    assert len(call([FLOAT, FLOAT, FLOAT], [[4], [4], [0]])) == 2


def test_a_type_that_was_lost_is_that_of_the_result() -> None:
    found = call([FLOAT, "Int"], [[4], []], ["", "<dtype>"], name="aten::to", result="bfloat16")
    assert found[1] == {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("types", "shapes", "values", "why"),
    [
        ([7], [[4]], [], "without a type"),
        (["TensorList"], [[4]], [], "a list of tensors without types"),
        ([FLOAT], [[-1]], [], "a shape that is not one"),
        ([FLOAT], ["x"], [], "a shape that is not one"),
        (["Device"], [[]], ["<object>"], "an argument recorded as '<object>'"),
    ],
)
def test_what_cannot_be_told_is_not_made_up(types, shapes, values, why) -> None:
    with pytest.raises(Unsupported, match=why):
        call(types, shapes, values)
