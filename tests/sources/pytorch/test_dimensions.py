"""What Kineto alone says of an operator's tensors and other arguments."""

from __future__ import annotations

import json

import pytest

from chakrakit.sources.pytorch.calls import plain_values, tensor_sizes
from chakrakit.sources.pytorch.read import read_kineto


def _seen(**args):
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "c10d::send",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 1,
    }
    return read_kineto(json.dumps({"traceEvents": [{**event, "args": args}]}).encode())


@pytest.mark.parametrize(
    ("dims", "types", "sizes", "dtype"),
    [
        ([[2, 3]], ["float"], [24], "float"),
        ([[2, 3], [4], []], ["c10::BFloat16", "long int", "Scalar"], [12, 32], "bfloat16"),
        ([[]], ["float"], [4], "float"),  # a tensor of no dimension holds one number
        ([[[2], [3]]], ["TensorList"], [], ""),
        ([[1 << 40, 1 << 40]], ["float"], [-1], "float"),  # more bytes than can be counted
    ],
)
def test_bytes_of_tensors(dims, types, sizes, dtype):
    seen = _seen(**{"Input Dims": dims, "Input type": types})
    assert tensor_sizes(seen, 0) == (sizes, dtype)


def test_numbers_and_lists_of_numbers_among_the_arguments():
    seen = _seen(**{"Concrete Inputs": ["", "3", "[1, 2]", "True", "group", "0"]})
    assert plain_values(seen, 0) == [3, [1, 2], 0]


def test_an_operator_that_says_nothing():
    assert tensor_sizes(_seen(), 0) == ([], "")
    assert plain_values(_seen(), 0) == []
