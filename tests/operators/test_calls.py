"""Calls from the texts of a trace: tensors with their memory, and what is not said is unknown."""

import pytest

from chakrakit.operators import (
    ArgumentTexts,
    Operand,
    RecordedTensor,
    is_recorded_tensor,
    mentioned_tensors,
    read_call,
    recorded_tensor,
)


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
        ("[[8]]", "[]"),
    ],
)
def test_what_cannot_be_read_is_no_tensor(shapes, types):
    assert read_call("aten::relu", shapes, types).tensors == []


def test_an_absent_tensor_does_not_count():
    types = '["Tensor(nullptr (uninitialized))", "Tensor(float)"]'
    call = read_call("aten::addmm", "[[2], [2]]", types)
    assert [t.dtype for t in call.tensors] == ["float"]


@pytest.mark.parametrize(
    ("device", "tensors"), [("cuda:0", [(8,)]), ("cpu", [(8,), ()])], ids=["kernel", "host"]
)
def test_a_number_on_the_host_is_no_operand_of_a_kernel(device, tensors):
    values = f'[[1, 2, 0, 8, 4, "{device}"], [3, 4, 0, 1, 4, "cpu"]]'
    call = read_call("aten::mul", "[[8], []]", '["Tensor(float)", "Tensor(float)"]', values=values)
    assert [t.shape for t in call.tensors] == tensors


def test_what_is_copied_from_the_host_is_told_by_where_the_result_is():
    result = ArgumentTexts("[[8]]", '["Tensor(float)"]', "", '[[1, 2, 0, 8, 4, "cuda:0"]]')
    source = '[[3, 4, 0, 8, 4, "cpu"]]'
    call = read_call("aten::_to_copy", "[[8]]", '["Tensor(float)"]', "", source, result)
    assert (call.tensors, len(call.outputs)) == ([], 1)


@pytest.mark.parametrize(
    ("value", "form", "valid"),
    [
        ([5, 77, 2, 32, 2, "cuda:0"], True, True),
        ([5, -77, 2, 32, 2, "cuda:0"], True, True),  # storages are told apart by any number
        ([5, 77, 2, 0, 2, ""], True, True),
        ([5, 77, -2, 32, 2, "cuda:0"], True, False),
        ([5, 77, 2, -32, 2, "cuda:0"], True, False),
        ([5, 77, 0, 1 << 61, 4, "cuda:0"], True, False),
        ([5, 1 << 63, 0, 1, 4, "cuda:0"], True, False),
        ([5, 77, 2, 32, 2, None], False, False),
        ([5, 77, 2, True, 2, "cuda:0"], False, False),
        ([5, 77, 2, 32.0, 2, "cuda:0"], False, False),
        ([5, 77, 2, 32, "cuda:0"], False, False),
        ("cuda:0", False, False),
    ],
)
def test_the_one_rule_of_what_a_recorded_tensor_is(value, form, valid):
    assert is_recorded_tensor(value) is form
    assert (recorded_tensor(value) is not None) is valid


def test_tensors_in_lists_of_lists_come_with_their_shapes_and_strides():
    one, two = [1, 7, 0, 6, 4, "cuda:0"], [2, 8, 0, 2, 4, "cuda:0"]
    values, shapes, strides = [[[one]], 3, two], [[[[2, 3]]], [], [2]], [[[[3, 1]]], [], [1]]
    assert list(mentioned_tensors(values, shapes, strides)) == [
        (RecordedTensor(*one), [2, 3], [3, 1]),
        (RecordedTensor(*two), [2], [1]),
    ]


def test_lists_deeper_than_any_recording_has_are_not_followed():
    nest = [1, 7, 0, 6, 4, "cuda:0"]
    for _ in range(100):
        nest = [nest]
    assert list(mentioned_tensors(nest)) == []


@pytest.mark.parametrize(
    ("shape", "strides", "extent"),
    [
        ([4, 8], [8, 1], 2 + 32),
        ([4, 8], [16, 1], 2 + 3 * 16 + 8),  # every second row
        ([4, 8], [0, 1], 2 + 8),  # one row, repeated
        ([], [], 2 + 32),
        ([4], ["x"], 2 + 32),
    ],
)
def test_how_far_a_tensor_reaches_into_its_storage(shape, strides, extent):
    assert RecordedTensor(1, 7, 2, 32, 1, "cuda:0").extent(shape, strides) == extent


def test_a_type_nobody_knows_has_the_size_that_was_recorded_or_four_bytes():
    told = '[[1, 2, 0, 2, 16, "cuda:0"]]'
    assert read_call("x", "[[2]]", '["Tensor(quaternion)"]', "", told).tensors[0].each == 16
    assert read_call("x", "[[2]]", '["Tensor(quaternion)"]').tensors[0].each == 4


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
