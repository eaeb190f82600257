"""Bytes cut into whole elements."""

import pytest

from chakrakit import CollectiveType, TraceBuilder
from chakrakit.passes.comm.rewrite import cut, element_size, shard_of


@pytest.mark.parametrize(
    ("size", "parts", "each", "sizes"),
    [
        (40, 3, 4, [16, 12, 12]),
        (41, 2, 4, [21, 20]),  # not whole elements: bytes are cut
        (8, 4, 4, [4, 4, 0, 0]),
        (0, 2, 4, [0, 0]),
    ],
)
def test_parts_are_as_even_as_elements_allow(size, parts, each, sizes):
    assert cut(size, parts, each) == sizes
    assert sum(sizes) == size


def body(**fields):
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, 40, **fields)
    return t.build()


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("c10::BFloat16", 2),
        ("bf16", 2),
        ("Float", 4),
        ("long int", 8),
        ("float8_e4m3fn", 1),
        ("?", 1),
    ],
)
def test_elements_are_known_by_any_name_of_their_type(dtype, size):
    assert element_size(body(comm_dtype=dtype), 0) == size


def test_a_trace_that_does_not_say_has_bytes():
    assert element_size(body(), 0) == 1


def test_a_shard_is_filled_up_to_whole_elements():
    """Ten floats over three ranks: four each."""
    assert shard_of(body(comm_dtype="float"), 0, 40, 3) == 16
    assert shard_of(body(comm_dtype="float"), 0, 41, 3) == 14
