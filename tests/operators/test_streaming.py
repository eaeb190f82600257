"""Whatever only passes through memory: bytes read and written."""

import pytest

from chakrakit.operators import Call, Operand, operation_of


def fp32(*shape, strides=None):
    return Operand(shape, 4, "float", strides)


def moved(name, inputs, *values):
    operation = operation_of(Call(name, inputs, values))
    return operation.bytes, operation.table


@pytest.mark.parametrize(
    ("name", "inputs", "bytes_", "table"),
    [
        ("aten::relu", [fp32(10)], 80, "clamp_min"),
        ("aten::add", [fp32(10), fp32(10)], 120, "add"),
        ("aten::add_", [fp32(10), fp32(10)], 120, "add"),
        ("aten::add", [fp32(4, 10), fp32(10)], 360, "add.broadcast"),
        ("aten::eq", [fp32(10), fp32(10)], 90, "eq"),  # the result has one byte per element
        ("aten::fill_", [fp32(10)], 40, "fill"),  # nothing is read
        ("aten::add", [fp32(10), Operand((10,), 2, "c10::Half")], 100, "add.mixed"),
    ],
)
def test_what_an_elementwise_operator_moves(name, inputs, bytes_, table):
    assert moved(name, inputs) == (bytes_, table)


def test_operands_that_lie_otherwise_are_keyed_by_what_lies_together():
    call = Call("aten::add", [fp32(4, 8), fp32(4, 8, strides=(1, 4))])
    assert operation_of(call).table == "add.strided"
    assert operation_of(call).shape[2] == 4


def test_a_copy_from_the_host_writes_only():
    assert moved("aten::copy_", [fp32(10), None]) == (40, "copy.host")
    assert moved("aten::copy_", [fp32(10), fp32(10)]) == (80, "copy")
    assert moved("aten::copy_", [fp32(10), Operand((10,), 2, "c10::Half")]) == (60, "copy.cast")


def test_pieces_are_joined_by_their_runs():
    found = operation_of(Call("aten::cat", [[fp32(2, 4), fp32(6, 4)], None], [None, 1]))
    assert (found.shape, found.bytes) == ((2, 256, 16), 256)
    assert operation_of(Call("aten::cat", [[], None])) is None


def test_fused_adam_reads_four_lists_and_writes_three():
    lists = [[fp32(10)] for _ in range(4)]
    assert moved("aten::_fused_adamw_", lists)[0] == (4 + 3) * 40
    assert moved("aten::_foreach_zero_", [[fp32(10)]])[0] == 40
    assert moved("aten::_foreach_norm", [[fp32(10)]])[0] == 40


def test_a_generated_kernel_reaches_no_more_than_its_index_space():
    big, small = fp32(1000), fp32(10)
    assert moved("triton_poi_fused_add_0", [big, small], 10)[0] == 80
    assert moved("triton_red_fused_softmax_1", [big], 1000)[1] == "fused.red.softmax"


def test_without_tensors_nothing_is_known():
    assert operation_of(Call("aten::relu", [None])) is None
    assert operation_of(Call("my::kernel", [])) is None
