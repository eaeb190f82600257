"""Arguments of a call as a plan writes them."""

from __future__ import annotations

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.tensors import (
    Unsupported,
    check_integer,
    parse_schema,
    plan_value,
    recorded_tensors,
)

TENSOR = [1, 77, 0, 6, 4, "cpu"]


def planned(kind, value, recorded="", shape=(), name="x", strides=()):
    """An argument of a schema's type, recorded with this value and type."""
    (argument,) = parse_schema(f"aten::f({kind} {name}) -> Tensor").arguments
    item = (value, list(shape), recorded, list(strides))
    return plan_value(argument, item, lambda t: t.storage, "node 5", lambda d: d.partition(":")[0])


@pytest.mark.parametrize(
    ("kind", "value", "recorded", "said"),
    [
        ("int", 3, "Int", 3),
        ("bool", True, "Bool", True),
        ("float", float("inf"), "Double", {"number": "inf"}),
        ("float", "-inf", "Double", {"number": "-inf"}),
        ("str", "mean", "String", "mean"),
        ("int[]", [1, 2], "GenericList[Int,Int]", [1, 2]),
        ("ScalarType", 6, "Int", {"dtype": "float32"}),
        ("ScalarType?", 15, "Int", {"dtype": "bfloat16"}),
        ("MemoryFormat?", 2, "Int", {"format": "channels_last"}),
        ("Layout?", 0, "Int", None),
        ("Device?", "cuda:1", "Device", {"device": "cuda"}),
        ("Generator?", "<Generator>", "Generator", None),
        ("int?", None, "None", None),
    ],
)
def test_plain_values(kind, value, recorded, said):
    assert planned(kind, value, recorded) == said


def test_an_epsilon_that_six_decimals_lost_is_a_small_number():
    assert planned("float", 0.0, "Double", name="eps") == 1e-8
    assert planned("float", 0.0, "Double", name="momentum") == 0.0


def test_tensors_are_slots_alone_or_in_lists():
    one = {"slot": 77}
    assert planned("Tensor", TENSOR, "Tensor(float)", (2, 3)) == one
    found = planned(
        "Tensor[]", [TENSOR, TENSOR], "GenericList[Tensor(float),Tensor(float)]", [[2, 3]] * 2
    )
    assert found == [one, one]
    assert planned("Tensor?", "<None>", "None") is None
    assert planned("Tensor", 2.5, "Double") == 2.5  # a number where a tensor may stand


@pytest.mark.parametrize(
    ("kind", "value", "recorded", "said"),
    [
        ("ScalarType", 99, "Int", "data type 99"),
        ("MemoryFormat", 9, "Int", "memory format 9"),
        ("str", "<Object>", "Object", "an argument recorded as '<Object>'"),
        ("str", "x" * 65, "String", "an argument recorded as"),
        ("Tensor[]", [TENSOR], "GenericList[Tensor(float),Tensor(float)]", "cut short"),
    ],
)
def test_what_a_plan_cannot_say_is_a_reason_for_a_stand_in(kind, value, recorded, said):
    with pytest.raises(Unsupported, match=said):
        planned(kind, value, recorded)


def test_results_are_nested_as_recorded():
    (found,) = recorded_tensors((TENSOR, [2, 3], "Tensor(float)", []), "node 5")
    assert (found.storage, found.shape) == (77, (2, 3))
    assert recorded_tensors((3, [], "Int", []), "node 5") == [None]
    item = ([TENSOR, TENSOR], [[2, 3]] * 2, "GenericList[Tensor(float),Tensor(float)]", [])
    ((first, second),) = recorded_tensors(item, "node 5")
    assert first == second == found


@pytest.mark.parametrize("value", [-1, True, 2.0, "3", None])
def test_a_number_without_which_a_collective_cannot_run(value):
    assert check_integer(0, "src", "node 5") == 0
    with pytest.raises(TraceError, match=r"node 5: src is .*; it should be a number from 0"):
        check_integer(value, "src", "node 5")
