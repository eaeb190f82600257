"""Arguments of a call as a plan writes them, from what the observer wrote."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.plan.schema_text import Argument
from chakrakit.replayer.plan.tensors import Unsupported
from chakrakit.replayer.plan.values import check_integer, plan_value, recorded_tensors
from support.recorded import several, tensor


def item(found):
    return found["value"], found["shape"], found["type"], found["strides"]


def value(kind, given, recorded="Int", name="x"):
    used = []

    def use(found):
        used.append(found.storage)
        return len(used) - 1

    given = item(given) if isinstance(given, dict) else (given, [], recorded, [])
    argument = Argument(name, kind, keyword=False, written=False)
    return plan_value(argument, given, use, "here", lambda d: f"new {d}"), used


@pytest.mark.parametrize(
    ("kind", "given", "written"),
    [
        ("int", 7, 7),
        ("float", 0.5, 0.5),
        ("float", float("inf"), {"number": "inf"}),
        ("Scalar", "-inf", {"number": "-inf"}),
        ("bool", True, True),
        ("str", "mean", "mean"),
        ("int[]", [1, 2], [1, 2]),
        ("ScalarType?", 6, {"dtype": "float32"}),
        ("ScalarType?", 15, {"dtype": "bfloat16"}),
        ("MemoryFormat?", 2, {"format": "channels_last"}),
        ("Layout?", 0, None),
        ("Device?", "cuda:0", {"device": "new cuda:0"}),
        ("Generator?", "<Generator>", None),
    ],
)
def test_plain_values(kind, given, written):
    assert value(kind, given) == (written, [])


def test_an_epsilon_that_was_printed_as_0_is_a_small_one():
    assert value("float", 0.0, name="eps")[0] == 1e-8
    assert value("float", 0.0, name="p")[0] == 0.0


def test_tensors_are_slots_in_the_order_of_their_use():
    assert value("Tensor", tensor(5, 2)) == ({"slot": 0}, [5])
    pair = value("Tensor[]", several(tensor(5, 2), tensor(6, 3)))
    assert pair == ([{"slot": 0}, {"slot": 1}], [5, 6])
    assert value("Tensor?", "<None>", "None") == (None, [])
    assert value("Tensor", 3) == (3, [])  # a number where a tensor may stand


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("ScalarType?", 99, "data type 99"),
        ("MemoryFormat?", -1, "memory format -1"),
        ("str", "x" * 65, "an argument recorded as"),
        ("Any", "<Object>", "an argument recorded as '<Object>'"),
        ("Tensor[]", {**several(tensor(5, 2), tensor(6, 3)), "type": "GenericList[Tensor(float)]"},
         "a list that was cut short"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_to_pytorch(kind, given, said):
    with pytest.raises(Unsupported, match=said):
        value(kind, given)


def test_results_nest_as_recorded():
    (one,) = recorded_tensors(item(tensor(5, 2)), "here")
    assert (one.storage, one.shape) == (5, (2,))
    ((first, second),) = recorded_tensors(item(several(tensor(5, 2), tensor(6, 3))), "here")
    assert (first.storage, second.storage) == (5, 6)
    assert recorded_tensors((3, [], "Int", []), "here") == [None]


@pytest.mark.parametrize("wrong", [True, -1, 1.0, None])
def test_a_number_without_which_a_collective_cannot_run(wrong):
    assert check_integer(3, "root", "here") == 3
    with pytest.raises(TraceError, match=r"here: root is .*; it should be a number from 0"):
        check_integer(wrong, "root", "here")
