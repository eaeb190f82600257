"""Operators that pick or place rows: the bytes they touch, not those of the table."""

import pytest

from chakrakit.operators import Call, Operand, operation_of

TABLE = Operand((1000, 64), 2, "c10::BFloat16")
ROW = 64 * 2


def long(*shape):
    return Operand(shape, 8, "long int")


def moved(name, inputs, *values):
    operation = operation_of(Call(f"aten::{name}", inputs, values))
    return operation and operation.bytes


def test_a_lookup_reads_and_writes_the_rows_it_picks():
    assert moved("embedding", [TABLE, long(10)]) == 2 * 10 * ROW + 80


def test_its_backward_clears_the_table_first():
    grad = Operand((10, 64), 2, "c10::BFloat16")
    table = 1000 * ROW
    assert moved("embedding_dense_backward", [grad, long(10)], 0, 0, 1000) == (
        table + 3 * 10 * ROW + 4 * 80
    )


@pytest.mark.parametrize(
    ("name", "tensors", "values", "cleared"),
    [
        ("_embedding_bag_dense_backward", 5, [1000, False, 0, None, -1], 1000),
        ("_embedding_bag_backward", 6, [1000, False, 0, False, None, -1], 1000),
        ("_embedding_bag_backward", 6, [1000, False, 0, True, None, -1], 0),
    ],
)
def test_gradients_of_bags_clear_the_table_and_add_rows(name, tensors, values, cleared):
    """A row for each index, of the inner call or of the outer one; sparse ones clear nothing."""
    grad = Operand((3, 64), 2, "c10::BFloat16")
    given = [grad, long(10), *[long(3)] * (tensors - 2)]
    found = moved(name, given, *[None] * tensors, *values)
    assert found == cleared * ROW + 2 * 10 * ROW + 4 * 80


def test_bags_write_one_row_each():
    assert moved("_embedding_bag", [TABLE, long(10), long(3)]) == 10 * ROW + 3 * ROW + 80


def test_the_backward_of_bags_clears_the_table_and_adds_a_row_for_each_index():
    grad = Operand((3, 64), 2, "c10::BFloat16")
    inputs = [grad, long(10), long(10), long(3), long(3)]
    cleared = moved("_embedding_bag_dense_backward", inputs, 1000) or 0
    none = moved("_embedding_bag_dense_backward", inputs) or 0
    assert cleared - none == 1000 * ROW
    assert none == 2 * 10 * ROW + 4 * 80


def test_an_operation_is_known_by_rows_their_width_and_the_table():
    """The sizes by which a profile finds the rows that it measured."""
    lookup = operation_of(Call("aten::embedding", [TABLE, long(10)]))
    assert lookup is not None
    assert lookup.shape == (10, ROW, 1000 * ROW)
    grad = Operand((10, 64), 2, "c10::BFloat16")
    back = operation_of(Call("aten::embedding_dense_backward", [grad, long(10)], (0, 0, 500)))
    assert back is not None
    assert back.shape == (10, ROW, 500 * ROW)


def test_a_selection_along_an_axis():
    assert moved("index_select", [TABLE, None, long(10)], 0, 0) == 2 * 10 * ROW + 80


def test_a_mask_is_read_whole():
    mask = Operand((1000, 64), 1, "bool")
    assert moved("index", [TABLE, [mask]]) == 64_000 + 2 * 1000 * ROW


def test_adding_sorts_the_indices_first():
    values = Operand((10, 64), 2, "c10::BFloat16")
    plain = moved("index_put", [TABLE, [long(10)], values], 0, 0, 0, False)
    summed = moved("index_put", [TABLE, [long(10)], values], 0, 0, 0, True)
    assert (plain, summed) == (80 + 3 * 10 * ROW, 8 * 80 + 3 * 10 * ROW)


def test_without_table_or_index_nothing_is_known():
    for name in ("embedding", "index_select", "gather", "index", "index_put", "scatter"):
        assert moved(name, [TABLE, None, None]) is None
