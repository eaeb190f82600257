"""Calls from the texts of a trace: tensors with their memory, and what is not said is unknown."""

import pytest

from chakrakit.machines.operations.calls import Operand, read_call, read_operands


def test_tensors_have_shape_type_strides_and_storage():
    call = read_call(
        "aten::mm",
        "[[4, 8], [8, 2]]",
        '["Tensor(c10::BFloat16)", "Tensor(float)"]',
        "[[8, 1], [1, 8]]",
        '[[5, 77, 0, 32, 2, "cuda:0"], [6, 78, 0, 16, 4, "cuda:0"]]',
    )
    assert call.tensors == [
        Operand((4, 8), 2, "c10::BFloat16", (8, 1), 77),
        Operand((8, 2), 4, "float", (1, 8), 78),
    ]


def test_lists_of_tensors_and_plain_arguments_keep_their_places():
    call = read_call(
        "aten::cat",
        "[[[2, 3], [4, 3]], []]",
        '["GenericList[Tensor(float),Tensor(float)]", "Int"]',
        values="[[], 1]",
    )
    assert [o.shape for o in call.listed(0)] == [(2, 3), (4, 3)]
    assert (call.tensor(0), call.tensor(1), call.value(1), call.value(9)) == (None, None, 1, None)


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        ("", ""),
        ("{", "["),
        ("7", '"x"'),
        ("[[-1]]", '["Tensor(float)"]'),
        ("[3]", '["Tensor(float)"]'),
    ],
)
def test_what_cannot_be_read_is_no_tensor(shapes, types):
    assert read_call("aten::relu", shapes, types).tensors == []


def test_tensors_on_the_host_and_absent_ones_do_not_count():
    call = read_call(
        "aten::addmm",
        "[[2], [2]]",
        '["Tensor(nullptr (uninitialized))", "Tensor(float)"]',
        values='["", [1, 2, 0, 2, 4, "cpu"]]',
    )
    assert call.tensors == []


def test_a_type_nobody_knows_has_the_size_that_was_recorded_or_four_bytes():
    told = '[[1, 2, 0, 2, 16, "cuda:0"]]'
    assert read_operands("[[2]]", '["Tensor(quaternion)"]', told)[0].each == 16
    assert read_operands("[[2]]", '["Tensor(quaternion)"]')[0].each == 4


@pytest.mark.parametrize(
    ("shape", "strides", "touched", "run", "contiguous", "dense"),
    [
        ((4, 8), (8, 1), 128, 128, True, True),
        ((4, 8), (1, 4), 128, 4, False, True),  # transposed
        ((4, 8), (0, 1), 32, 32, False, False),  # one row, repeated
        ((4, 8), (16, 1), 128, 32, False, False),  # every second row
        ((1, 8), (99, 1), 32, 32, True, True),
        ((4, 8), None, 128, 128, True, True),
        ((0, 8), (8, 1), 0, 0, True, True),
    ],
)
def test_how_a_tensor_lies_in_memory(shape, strides, touched, run, contiguous, dense):
    x = Operand(shape, 4, "float", strides)
    assert (x.touched, x.run, x.contiguous, x.dense) == (touched, run, contiguous, dense)


@pytest.mark.parametrize(
    ("name", "short", "in_place"),
    [("aten::add_", "add", True), ("aten::__and__", "__and__", False), ("mm", "mm", False)],
)
def test_the_short_name_and_whether_it_writes_into_its_first_tensor(name, short, in_place):
    call = read_call(name, "", "")
    assert (call.short, call.in_place) == (short, in_place)
