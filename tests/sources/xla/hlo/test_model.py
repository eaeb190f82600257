"""An HLO module in memory: shapes and how many bytes they take."""

from __future__ import annotations

import pytest

from chakrakit.sources.xla import Module
from chakrakit.sources.xla.hlo import Computation, Instruction, Shape

F32 = Shape("f32", (2, 3))
NESTED = Shape(parts=(Shape(parts=(Shape("pred", (5,)),), is_tuple=True), F32), is_tuple=True)


@pytest.mark.parametrize(
    ("shape", "elements", "size", "text"),
    [
        (F32, 6, 24, "f32[2,3]"),
        (Shape("bf16"), 1, 2, "bf16[]"),
        (Shape("s4", (3,)), 3, 2, "s4[3]"),  # twelve bits fill two bytes
        (Shape("f32", (0, 7)), 0, 0, "f32[0,7]"),
        (Shape("token"), 1, 0, "token[]"),
        (NESTED, 11, 29, "((pred[5]), f32[2,3])"),
        (Shape(is_tuple=True), 0, 0, "()"),
    ],
)
def test_elements_and_bytes(shape, elements, size, text):
    assert (shape.elements, shape.bytes, str(shape)) == (elements, size, text)


def test_the_first_array_of_a_nest():
    assert NESTED.first == Shape("pred", (5,))
    assert F32.first is F32


def test_a_module_begins_with_its_entry():
    main = Computation("main", [Instruction("a", "parameter", F32)], "a")
    module = Module("m", {"other": Computation("other"), "main": main}, "main")
    assert module.main is main
    assert main.by_name()["a"].shape is F32
