"""Calls made from what was written of their arguments."""

from __future__ import annotations

import pytest

from chakrakit.replayer.compile.from_shapes import ANY_OVERLOAD, Written, made_call
from chakrakit.replayer.plan import Unsupported

FLOAT = "Tensor(float)"


def call(name, shapes, types, values=(), strides=(), result=None):
    """The call's arguments, and the tensors that were made for it."""
    made = []

    def make(dtype, shape, steps):
        made.append((dtype, tuple(shape), tuple(steps)))
        return len(made) - 1

    found = made_call(Written(name, shapes, types, strides, values, result), make)
    assert (found.op, found.overload) == (name, ANY_OVERLOAD)
    return found.args, made


def test_tensors_are_made_and_texts_read():
    args, made = call(
        "aten::x",
        [[2, 3], [], [], []],
        [FLOAT, "Scalar", "Bool", "String"],
        ["", "1.", "True", "same"],
        [[3, 1], [], [], []],
    )
    assert args == [{"slot": 0}, 1, True, "same"]
    assert made == [("float32", (2, 3), (3, 1))]


def test_a_number_may_stand_where_a_tensor_could():
    """Of `add` Kineto writes the type of the number; of others it is a tensor without dimensions."""
    assert call("aten::add", [[4], []], [FLOAT, "double"])[0] == [{"slot": 0}, 1.0]
    args, made = call("aten::pow", [[4], []], [FLOAT, "double"])
    assert args[1] == {"slot": 1}
    assert made[1] == ("float64", (), ())


def test_lists_nothing_and_results_that_were_to_be_allocated():
    types = [f"GenericList[{FLOAT},{FLOAT}]", "None", "GenericList[Int,Int]", FLOAT]
    args, made = call("aten::cat", [[[2], [3]], [], [], [0]], types, ["", "", "[0, 1]", ""])
    assert args == [[{"slot": 0}, {"slot": 1}], None, [0, 1]]
    assert [m[1] for m in made] == [(2,), (3,)]


def test_a_lost_type_is_that_of_the_result():
    args, _ = call("aten::_to_copy", [[2], []], [FLOAT, "Int"], ["", "<dtype>"], (), "bfloat16")
    assert args[1] == {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("shapes", "types", "values", "said"),
    [
        ([[-1]], [FLOAT], [""], "a shape that is not one"),
        ([["x"]], [FLOAT], [""], "a shape that is not one"),
        ([[]], [3], [""], "an argument without a type"),
        ([[]], ["TensorList"], [""], "a list of tensors without types"),
        ([[]], ["Generator"], ["<Generator>"], "an argument recorded as '<Generator>'"),
    ],
)
def test_what_cannot_be_told_is_not_made_up(shapes, types, values, said):
    with pytest.raises(Unsupported, match=said):
        call("aten::x", shapes, types, values)
