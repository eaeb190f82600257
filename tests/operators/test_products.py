"""Products, attention and convolutions: classes, shapes, FLOPs."""

import pytest

from chakrakit.operators import Call, Operand, Work, gemm_operation, operation_of, operator_of
from chakrakit.operators.products import _alignment


def bf16(*shape, strides=None):
    return Operand(shape, 2, "c10::BFloat16", strides)


def test_a_product_counts_two_flops_per_pair():
    found = operation_of(Call("aten::mm", [bf16(64, 32), bf16(32, 16)]))
    assert found.shape == (64, 16, 32)
    assert found.flops == 2 * 64 * 16 * 32
    assert found.bytes == 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert (found.kind, found.table) == ("gemm", "gemm.nn")


def test_sizes_that_leave_the_fast_kernels_are_a_class_of_their_own():
    assert gemm_operation(64, 33, 32).kind == "gemm_odd"
    odd = operation_of(Call("aten::mm", [bf16(64, 31), bf16(31, 33)]))
    assert odd.table == "gemm_odd.nn"


def test_a_transposed_operand_is_told_by_its_strides():
    weight = bf16(32, 16, strides=(1, 32))
    assert operation_of(Call("aten::mm", [bf16(64, 32), weight])).table == "gemm.nt"


def test_single_precision_is_what_the_kernels_say():
    fp32 = [Operand((64, 64), 4, "float"), Operand((64, 64), 4, "float")]
    assert operation_of(Call("aten::mm", fp32)).table == "gemm.fp32.nn"
    on_cores = Call("aten::mm", fp32, kernels=("ampere_s1688gemm_64x64",))
    assert operation_of(on_cores).table == "gemm.tf32.nn"


def test_a_batch_of_products_is_counted_whole():
    found = operation_of(Call("aten::bmm", [bf16(3, 8, 16), bf16(3, 16, 8)]))
    assert (found.shape, found.flops) == ((3, 8, 8, 16), 3 * 2 * 8 * 8 * 16)


def test_the_bias_of_addmm_is_no_operand_of_the_product():
    found = operation_of(Call("aten::addmm", [bf16(16), bf16(64, 32), bf16(32, 16)]))
    assert found.shape == (64, 16, 32)


def test_a_product_without_its_tensors_is_unknown():
    assert operation_of(Call("aten::mm", [bf16(64, 32), None])) is None
    assert operation_of(Call("aten::mm", [bf16(64), bf16(32, 16)])) is None


FLASH = "aten::_scaled_dot_product_flash_attention"
QUERY = bf16(2, 8, 128, 64)


def test_causal_attention_does_half_the_work():
    inputs = [QUERY, QUERY, QUERY]
    whole = operation_of(Call(FLASH, inputs, [0.0] * 3 + [0.0, False]))
    half = operation_of(Call(FLASH, inputs, [0.0] * 3 + [0.0, True]))
    assert whole.flops == 2 * 2 * 8 * 128 * 128 * (64 + 64)
    assert half.flops == whole.flops / 2
    assert (whole.table, half.table) == ("attention.flash", "attention.flash.causal")


def test_fewer_heads_in_the_cache_are_grouped_and_one_query_is_decoding():
    few = bf16(2, 2, 128, 64)
    assert operation_of(Call(FLASH, [QUERY, few, few])).table == "attention.flash.grouped"
    decode = operation_of(Call(FLASH, [bf16(2, 8, 1, 64), few, few]))
    assert (decode.table, decode.shape) == ("decode.flash", (4, 4, 128, 64))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("_flash_attention_forward", True),
        ("_scaled_dot_product_cudnn_attention_backward", True),
        ("scaled_dot_product_attention", False),
        ("softmax", False),
    ],
)
def test_which_operators_are_fused_attention(name, known):
    assert (operator_of(f"aten::{name}").work is Work.ATTENTION) is known


def test_a_convolution_counts_results_and_tells_the_memory_format():
    image = bf16(4, 16, 8, 8, strides=(1024, 64, 8, 1))
    call = Call("aten::cudnn_convolution", [image, bf16(32, 16, 3, 3)], [0, 0, 0, [2, 2], 0, 1])
    found = operation_of(call)
    assert found.shape == (4, 16, 8, 32, 3, 2)
    assert found.flops == 2 * (4 * 4 * 4) * 32 * 16 * 9
    assert found.kind == "conv_nchw"


def test_a_backward_convolution_counts_what_it_is_asked_for():
    image, weight = bf16(4, 16, 8, 8), bf16(32, 16, 3, 3)
    inputs = [bf16(4, 32, 8, 8), image, weight]
    both = operation_of(Call("aten::convolution_backward", inputs, [[True, True, False]]))
    one = operation_of(Call("aten::convolution_backward", inputs, [[False, True, False]]))
    assert both.flops == 2 * one.flops
    assert one.table == "conv_backward.weight"


@pytest.mark.parametrize(
    ("columns", "size", "kind"),
    [(8, 2, "gemm"), (4, 2, "gemm_odd.even"), (2, 2, "gemm_odd.even"), (1, 2, "gemm"), (3, 2, "gemm_odd"),
     (4, 4, "gemm"), (2, 4, "gemm_odd"), (3, 4, "gemm_odd")],
)  # fmt: skip
def test_rows_that_lie_16_bytes_apart_are_loaded_whole(columns, size, kind):
    """Of halves at least two together have kernels of their own; a single column has no rows to load."""
    first, second = (Operand((32, 32), size, "x"), Operand((32, columns), size, "x"))
    assert _alignment(first, second, columns).startswith(kind)
    assert (_alignment(first, second, columns) == "gemm_odd.even") == (kind == "gemm_odd.even")


def test_the_rows_of_an_expanded_matrix_are_one_row_that_is_loaded_whole():
    expanded = bf16(32, 32, strides=(0, 1))
    assert operation_of(Call("aten::mm", [expanded, bf16(32, 32)])).table == "gemm.nn"


def test_what_a_trace_says_of_rounding_decides_the_class_of_single_precision():
    square = Operand((64, 64), 4, "float", (64, 1))
    tables = [
        operation_of(Call("aten::mm", [square, square], computes_in=kind)).table
        for kind in ("", "fp32", "tf32")
    ]
    assert tables == ["gemm.fp32.nn", "gemm.fp32.nn", "gemm.tf32.nn"]


def test_a_convolution_rounds_unless_a_trace_says_that_it_does_not():
    image, weight = Operand((8, 64, 56, 56), 4, "float"), Operand((64, 64, 3, 3), 4, "float")
    values = ["", "", None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    tables = [
        operation_of(Call("aten::convolution", [image, weight], values, computes_in=kind)).table
        for kind in ("", "tf32", "fp32")
    ]
    assert tables == ["conv.fp32", "conv.fp32", "conv.fp32.ieee"]


@pytest.mark.parametrize(
    ("name", "each", "table"),
    [("c10::complex<float>", 8, "gemm.fp32.nn.complex"), ("double", 8, "gemm.fp64.nn")],
)
def test_a_complex_multiply_add_is_eight_operations_at_the_rate_of_its_parts(name, each, table):
    square = Operand((64, 64), each, name, (64, 1))
    found = operation_of(Call("aten::mm", [square, square]))
    assert found.table == table
    assert found.flops == (8 if "complex" in name else 2) * 64**3
