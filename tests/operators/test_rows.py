"""Operators that look at whole rows: what a profile keys them by, and the bytes that stream by."""

from chakrakit.operators import Call, Operand, operation_of


def fp32(*shape, strides=None):
    return Operand(shape, 4, "float", strides)


def found(name, inputs, *values):
    operation = operation_of(Call(f"aten::{name}", inputs, values))
    return operation and (operation.kind, operation.shape, operation.bytes, operation.table)


def test_a_softmax_reads_and_writes_every_row():
    shape = (6, 40)
    assert found("_softmax", [fp32(2, 3, 10)]) == ("softmax", shape, 480.0, "_softmax")
    assert found("_softmax", [fp32(0, 10)]) is None


def test_a_reduction_is_told_by_where_its_axes_lie():
    x = fp32(8, 4)
    assert found("sum", [x], None, [1])[1:] == ((8, 16), 8 * 16 + 8 * 4, "sum.inner")
    assert found("sum", [x], None, [0])[1:] == ((4, 32), 128 + 16, "sum.outer")
    assert found("sum", [x])[1:] == ((1, 128), 132, "sum.all")
    assert found("sum", [x], None, [-1])[3] == "sum.inner"


def test_along_which_axis_neighbours_lie_is_said_by_the_strides():
    assert found("sum", [fp32(8, 4, strides=(1, 8))], None, [1])[3] == "sum.outer"


def test_images_are_normalised_by_channel_in_either_format():
    last = fp32(2, 16, 4, 4, strides=(256, 1, 64, 16))
    first = fp32(2, 16, 4, 4, strides=(256, 16, 4, 1))
    assert found("native_batch_norm", [last])[:2] == ("batch_norm", (32, 16))
    assert found("native_batch_norm", [first])[0] == "batch_norm_nchw"


def test_groups_of_channels_default_to_32():
    x = fp32(2, 64, 4, 4)
    assert found("native_group_norm", [x])[1] == (64, 32 * 4)
    assert found("native_group_norm", [x], 2, 64, 16, 8)[1] == (16, 128 * 4)


def test_a_sort_is_keyed_by_its_lines():
    assert found("sort", [fp32(5, 7)], None, 0)[1] == (7, 5, 4)
    assert found("sort", [fp32(5, 7)])[1] == (5, 7, 4)


def test_a_loss_looks_at_one_element_per_row_and_clears_all_of_the_gradient():
    assert found("nll_loss_forward", [fp32(10, 100)])[2] == 640.0
    assert found("nll_loss_backward", [fp32(1), fp32(10, 100)])[2] == 4000.0


def test_without_its_tensor_nothing_is_known():
    for name in ("_softmax", "sum", "native_batch_norm", "sort", "nonzero", "avg_pool2d"):
        assert found(name, [None]) is None
