"""Work of HLO instructions, checked against sums that can be done in the head."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import Module
from chakrakit.sources.xla.hlo import Computation, Instruction, Shape
from chakrakit.sources.xla.rows import flops, moved


def f32(*dims):
    return Shape("f32", dims)


INSIDE = [Instruction("a", "parameter", f32(2, 3)), Instruction("b", "parameter", f32(3, 5))]


@pytest.mark.parametrize(
    ("instruction", "work"),
    [
        (Instruction("d", "dot", f32(2, 5), ("a", "b"), contracting=(1,)), (2 * 2 * 5 * 3, 0)),
        (
            Instruction("g", "custom-call", f32(2, 5), ("a", "b"), target="__cublas$gemm"),
            (2 * 2 * 5 * 3, 0),  # without a configuration the last dimension is summed over
        ),
        (
            Instruction(
                "g",
                "custom-call",
                f32(3, 5),
                ("a", "b"),
                target="__cublas$gemm",
                backend='{"lhs_contracting_dimensions":["0"]}',
            ),
            (2 * 3 * 5 * 2, 0),
        ),
        (Instruction("c", "custom-call", f32(2, 5), ("a",), target="Sharding"), (0, 0)),
        (Instruction("s", "add", f32(2, 3), ("a", "a")), (0, 6)),
        (
            Instruction("r", "reduce", f32(2), ("a",)),
            (0, 4),
        ),  # two sums of three take two adds each
        (Instruction("t", "transpose", f32(3, 2), ("a",)), (0, 0)),
    ],
)
def test_flops_of_one_instruction(instruction, work):
    module = Module("m", {}, "main")
    assert flops(module, instruction, Computation("main", INSIDE)) == work


def test_a_convolution_sums_over_its_kernel_but_the_output_features():
    """A kernel of 3 by 3 with 4 inputs and 8 outputs, at 10 places: 2 · 10 · 8 · 36."""
    inside = [
        Instruction("x", "parameter", f32(1, 12, 4)),
        Instruction("k", "parameter", f32(3, 3, 4, 8)),
    ]
    made = Instruction("c", "convolution", f32(10, 8), ("x", "k"), kernel_features=3)
    assert flops(Module("m", {}, "main"), made, Computation("main", inside)) == (5_760, 0)


def test_a_fusion_does_what_it_holds():
    dot = Instruction("d", "dot", f32(2, 5), ("a", "b"), contracting=(1,))
    add = Instruction("s", "add", f32(2, 5), ("d", "d"))
    module = Module("m", {"fused": Computation("fused", [*INSIDE, dot, add])}, "main")
    fusion = Instruction("f", "fusion", f32(2, 5), called=("fused",))
    assert flops(module, fusion, Computation("main")) == (60, 10)


def test_a_fusion_that_calls_itself_is_refused():
    again = Instruction("f", "fusion", f32(2), called=("fused",))
    module = Module("m", {"fused": Computation("fused", [again])}, "main")
    with pytest.raises(FormatError, match="fusions call themselves"):
        flops(module, again, Computation("main"))


@pytest.mark.parametrize(
    ("instruction", "size"),
    [
        (Instruction("d", "dot", f32(2, 5), ("a", "b")), 40 + 24 + 60),
        (Instruction("s", "slice", f32(1, 3), ("a",)), 2 * 12),
        (Instruction("u", "dynamic-update-slice", f32(3, 5), ("b", "a")), 2 * 24),
    ],
)
def test_bytes_are_operands_and_result_once_each(instruction, size):
    assert moved(instruction, {i.name: i.shape.bytes for i in INSIDE}) == size
