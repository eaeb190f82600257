"""Operator schemas as PyTorch prints them."""

import pytest

from chakrakit.replayer.tensors import Argument, parse_schema, split_list


def test_arguments_with_types_keywords_and_what_is_written():
    found = parse_schema(
        "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
    )
    assert (found.full_name, found.overload) == ("aten::add", "out")
    assert found.arguments == (
        Argument("self", "Tensor", False, False),
        Argument("other", "Tensor", False, False),
        Argument("alpha", "Scalar", True, False),
        Argument("out", "Tensor", True, True),
    )


def test_defaults_and_types_may_hold_brackets():
    found = parse_schema("aten::f(int[2] stride=[1, 1], Tensor(a)[] x=[]) -> ()")
    assert [(a.name, a.type) for a in found.arguments] == [("stride", "int[2]"), ("x", "Tensor[]")]


@pytest.mark.parametrize("text", ["", "add(Tensor self)", "aten::add(Tensor self", "aten::f(x)"])
def test_what_is_no_schema_is_none(text):
    assert parse_schema(text) is None


def test_a_text_longer_than_any_schema_is_none():
    assert parse_schema(f"aten::f({', '.join(['int a'] * 5000)})") is None


def test_lists_are_cut_at_the_outer_commas():
    assert split_list("a, f(b, c), [d, e]") == ["a", "f(b, c)", "[d, e]"]
    assert split_list("") == []
