"""Operators as operations: which table each is asked in, its size, and the bytes it really touches."""

import json

import pytest

from chakrakit.operators import Call, Operand, on_float32, on_tf32, operation_of, read_call

BF16, FP32, INT = "Tensor(c10::BFloat16)", "Tensor(float)", "Tensor(long int)"


def call(name, shapes, types, strides=None, values=None, **more):
    texts = (json.dumps(x) if x is not None else "" for x in (shapes, types, strides, values))
    return read_call(name, *texts, **more)


def asked(*args, **more):
    """(table, shape, bytes) of a call's operation."""
    found = operation_of(call(*args, **more))
    return found.table, found.shape, found.bytes


@pytest.mark.parametrize(
    ("strides", "types", "kernel", "table"),
    [
        ([[1024, 1], [256, 1]], [BF16, BF16], "nvjet", "gemm.nn"),
        ([[1024, 1], [1, 1024]], [BF16, BF16], "nvjet", "gemm.nt"),
        ([[1, 512], [256, 1]], [BF16, BF16], "nvjet", "gemm.tn"),
        ([[1024, 1], [1, 1024]], [FP32, FP32], "sgemm_32x32", "gemm.fp32.nt"),
        ([[1024, 1], [1, 1024]], [FP32, FP32], "xmma_gemm_f32f32_tf32f32_f32", "gemm.tf32.nt"),
    ],
)
def test_products_are_told_apart_by_layout_and_precision(strides, types, kernel, table):
    shapes = [[512, 1024], [1024, 256]]
    found = operation_of(call("aten::mm", shapes, types, strides, kernels=(kernel,)))
    assert (found.kind, found.table, found.shape) == ("gemm", table, (512, 256, 1024))
    assert found.flops == 2 * 512 * 256 * 1024


def test_a_batch_of_products_and_a_group_of_them():
    assert asked("aten::bmm", [[8, 64, 32], [8, 32, 16]], [BF16, BF16])[:2] == (
        "bmm.nn",
        (8, 64, 16, 32),
    )
    shapes = [[4096, 1024], [8, 1024, 2048], [8]]
    assert asked("aten::_grouped_mm", shapes, [BF16, BF16, INT])[:2] == (
        "grouped",
        (4096, 2048, 1024, 8),
    )


def test_attention_knows_its_kernel_mask_and_dropout():
    """Arguments as PyTorch gives them: dropout is the tenth, causality the eleventh."""
    shapes = [[8, 12, 1024, 64]] * 3 + [[]] * 8
    types = [BF16] * 3 + ["None"] * 3 + ["Int", "Int", "Bool", "Double", "Bool"]
    values = [[1, i, 0, 6291456, 2, "cuda:0"] for i in range(3)]
    values += ["<None>"] * 3 + [1024, 1024, True, 0.1, True]
    table, shape, moved = asked("aten::_cudnn_attention_forward", shapes, types, values=values)
    assert (table, shape) == ("attention.cudnn.causal.dropout", (96, 1024, 1024, 64))
    assert moved == 4 * 8 * 12 * 1024 * 64 * 2


def test_one_query_over_a_cache_reads_the_cache():
    shapes = [[16, 32, 1, 128], [16, 8, 4096, 128], [16, 8, 4096, 128]]
    table, shape, moved = asked("aten::_cudnn_attention_forward", shapes, [BF16] * 3)
    assert (table, shape) == ("decode.cudnn", (128, 4, 4096, 128))
    assert moved == pytest.approx(2 * 16 * 8 * 4096 * 128 * 2, rel=0.01)


def test_looking_up_rows_touches_them_and_not_the_table():
    weights, rows = 1_000_000 * 64 * 4, 8192 * 64 * 4
    shapes, types = [[1_000_000, 64], [8192]], [FP32, INT]
    for name, more in (("aten::embedding", []), ("aten::index_select", [[]])):
        found = operation_of(
            call(name, [shapes[0], *more, shapes[1]], [types[0], *("Int" for _ in more), types[1]])
        )
        assert found.shape == (8192, 256, weights)
        assert found.bytes == 2 * rows + 8192 * 8


def test_an_expanded_index_is_one_row_per_number():
    """What index_select becomes: gather with an index of stride 0 along the row."""
    found = asked(
        "aten::gather", [[4096, 1024], [], [512, 1024]], [BF16, "Int", INT], [[1024, 1], [], [1, 0]]
    )
    assert found[:2] == ("gather", (512, 2048, 4096 * 2048))


def test_expanded_operands_are_read_once():
    x = Operand((64, 1024, 768), 2, strides=(786432, 768, 1))
    row = Operand((64, 1024, 768), 2, strides=(0, 0, 1))
    assert (x.touched, row.touched) == (64 * 1024 * 768 * 2, 768 * 2)
    assert operation_of(Call("aten::add", [x, row])).bytes == 2 * x.touched + row.touched


def test_elementwise_operators_are_told_apart_by_how_their_operands_lie():
    whole, halved = [[8192, 768], [8192, 768]], [[768, 1], [1536, 1]]
    assert asked("aten::mul", whole, [BF16, BF16], [[768, 1]] * 2)[0] == "mul"
    assert asked("aten::mul", whole, [BF16, BF16], halved)[:2] == (
        "mul.strided",
        (8192 * 768, 3 * 8192 * 768 * 2, 1536),
    )
    assert asked("aten::mul", [[8192, 768], [768]], [BF16, BF16])[0] == "mul.broadcast"
    assert asked("aten::copy_", whole, [BF16, FP32])[0] == "copy.cast"


@pytest.mark.parametrize(
    ("axes", "table", "shape"),
    [
        ([1], "sum.inner", (8192, 768 * 4)),
        ([0], "sum.outer", (768, 8192 * 4)),
        ([0, 1], "sum.all", (1, 8192 * 768 * 4)),
    ],
)
def test_reductions_by_what_lies_together(axes, table, shape):
    found = asked("aten::sum", [[8192, 768], []], [FP32, "Int"], values=["<None>", axes])
    assert found[:2] == (table, shape)


def test_a_generated_kernel_moves_no_more_of_a_table_than_its_index_space():
    """A lookup of 1,024 rows of 768 in a table of 50,257, added to positions, into a result."""
    shapes = [[1024], [50257, 768], [1024, 768], [1024, 768], [], []]
    types = [INT, BF16, BF16, BF16, "Int", "Int"]
    values = [[1, i, 0, 1, 2, "cuda:0"] for i in range(4)] + [786432, 0]
    table, shape, moved = asked("triton_poi_fused_add_embedding_1", shapes, types, values=values)
    assert (table, shape[0]) == ("fused.poi", 786432)
    assert moved == 1024 * 8 + 3 * 786432 * 2


def test_lists_of_tensors_count_their_elements_and_bytes():
    """AdamW reads parameters, gradients and two moments, and writes all but gradients."""
    kind = f"GenericList[{BF16},{BF16}]"
    shapes = [[[1000], [24]]] * 4
    table, shape, moved = asked("aten::_fused_adamw_", shapes, [kind] * 4)
    assert (table, shape, moved) == ("_fused_adamw", (2, 1024, 7 * 2048), 7 * 2048)


@pytest.mark.parametrize("texts", [("", "", ""), ("[", "{}", "3"), ("[[1]]", "[7]", "[[[]]]")])
def test_texts_that_say_nothing_are_no_error(texts):
    assert operation_of(read_call("aten::mm", *texts)) is None


def test_scans_along_an_axis_that_lies_apart_are_a_class_of_their_own():
    shape, types = [[32, 1000]], [FP32]
    rows = asked("aten::cumsum", shape, types, values=[[], -1])
    columns = asked("aten::cumsum", shape, types, values=[[], 0])
    assert rows[:2] == ("cumsum", (32, 1000, 4))
    assert columns[:2] == ("cumsum.outer", (1000, 32, 4))


def test_tensors_that_do_not_broadcast_count_as_the_largest_of_them():
    table, shape, moved = asked("aten::unheard_of", [[4, 6], [5, 6]], [FP32, FP32])
    assert (table, shape) == ("unheard_of.broadcast", (30, (24 + 30 + 30) * 4))
    assert moved == (24 + 30 + 30) * 4


def test_a_recurrent_layer_counts_every_weight_once_per_step():
    """Arguments as PyTorch gives them: the buffer of weights is the fourth, the mode the seventh."""
    shapes = [[64, 32, 128], [], [], [5000], [2, 32, 256], [2, 32, 256], *[[]] * 9]
    types = [FP32, "GenericList[]", "Int", FP32, FP32, FP32, *["Int"] * 9]
    values = [[], [], 4, [], [], [], 2, 256, 0, 2, False, 0.0, True, False, []]
    found = operation_of(call("aten::_cudnn_rnn", shapes, types, values=values))
    assert (found.table, found.shape) == ("_cudnn_rnn.32", (64 * 2, 32, 256, 2500))
    assert found.flops == 2 * 64 * 32 * 5000


def test_a_recurrent_layer_without_a_buffer_has_the_weights_of_its_list():
    """As recorded of a model that was moved to another type: weights lie apart, the buffer is undefined."""
    shapes = [[64, 32, 128], [[1000, 4], [1000]], [], [], [2, 32, 256], [], *[[]] * 9]
    types = [FP32, f"GenericList[{FP32},{FP32}]", "Int", FP32, FP32, FP32, *["Int"] * 9]
    values = [[], [], 4, [], [], [], 2, 256, 0, 2, False, 0.0, True, False, []]
    found = operation_of(call("aten::_cudnn_rnn", shapes, types, values=values))
    assert found.shape == (64 * 2, 32, 256, 2500)


def test_a_convolution_along_a_line_is_an_image_of_one_row():
    shapes = [[16, 80, 3000], [512, 80, 3], [512], [], [], [], [], [], []]
    types = [BF16, BF16, BF16, *["GenericList[Int]"] * 5, "Int"]
    values = [[], [], [], [2], [1], [1], False, [0], 1]
    strides = [[240000, 3000, 1], [240, 3, 1], [1]]
    found = operation_of(call("aten::convolution", shapes, types, strides, values))
    assert (found.table, found.shape) == ("conv_nchw.line", (16, 80, 3000, 512, 3, 2))
    assert found.flops == 2 * 16 * 1500 * 512 * 80 * 3


def test_products_of_float32_tensors_are_told_by_their_units():
    plain, tf32 = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", "sm90_xmma_fprop_gemm_f32f32_tf32f32_f32"
    assert [on_float32(plain), on_float32(tf32)] == [True, False]
    assert [on_tf32(plain), on_tf32(tf32)] == [False, True]
