"""Recorded tensors: believed only where everything they say agrees."""

import pytest

from chakrakit.errors import TraceError
from chakrakit.replayer.tensors import (
    Unsupported,
    is_undefined,
    item_types,
    read_tensor,
    tensor_type,
)

VALUE = [1, 77, 4, 6, 4, "cuda:0"]


def read(value=VALUE, shape=(2, 3), kind="Tensor(float)", strides=(3, 1)):
    return read_tensor(value, list(shape), kind, list(strides), "node 5")


def test_a_tensor_and_how_far_it_reaches_into_its_storage():
    found = read()
    assert (found.storage, found.dtype, found.offset) == (77, "float32", 4)
    assert found.extent == (4 + 5 + 1) * 4
    assert found.lists == ("float32", [2, 3], [3, 1], 4)


def test_files_without_strides_have_contiguous_tensors():
    assert read(strides=()).strides == (3, 1)


def test_an_empty_tensor_reaches_nowhere():
    assert read([1, 77, 0, 0, 4, "cpu"], (0, 3)).extent == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"shape": (2, 4), "strides": (4, 1)}, r"shape \[2, 4\] cannot have 6 elements"),
        ({"value": [1, 77, 4, 6, 8, "cuda:0"]}, "elements of float have 4 bytes, not 8"),
        ({"value": [1, 77, -4, 6, 4, "cuda:0"]}, "a tensor with offset -4"),
        ({"shape": (-2, 3)}, "-2 in a tensor's shape; sizes are numbers from 0"),
        ({"strides": (1 << 47, 1)}, "no machine has them"),
        ({"shape": (1,) * 65}, "should be a short list of numbers"),
    ],
)
def test_what_cannot_be_is_refused_with_its_node(change, problem):
    with pytest.raises(TraceError, match=f"node 5: .*{problem}"):
        read(**change)


def test_a_type_nobody_knows_is_not_an_error_but_a_reason():
    with pytest.raises(Unsupported, match="tensors of quaternion"):
        read(kind="Tensor(quaternion)")


def test_types():
    assert tensor_type("Tensor(c10::BFloat16)") == "bfloat16"
    assert tensor_type("Tensor(short unsigned int)") == "uint16"  # as GCC writes it
    assert tensor_type("Tensor(unsigned short)") == "uint16"  # as Clang does
    assert tensor_type("int") == "int32"
    assert tensor_type("Int") is None  # a number, not a tensor
    assert tensor_type("Tensor(c10::quint4x2)") is None  # no tensor can be filled with these
    assert tensor_type("Tensor(quaternion)") is None
    assert item_types("GenericList[Tensor(float),Int]") == ["Tensor(float)", "Int"]
    assert item_types("Int") == []
    assert is_undefined("Tensor(nullptr (uninitialized))")
    assert not is_undefined("GenericList[Tensor(nullptr (uninitialized))]")
