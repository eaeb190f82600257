"""How results are shown: names without noise, numbers in their unit."""

import pytest

from chakrakit.insight.rank import Table, ms, percent, short, us


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4>(int, float*)",
            "vectorized_elementwise_kernel<4>",
        ),
        ("void (anonymous namespace)::softmax(f(int))", "softmax"),
        ("aten::mm", "aten::mm"),
        ("(int)", "(int)"),
        ("x" * 61, "x" * 59 + "…"),
    ],
)
def test_a_kernels_name_without_noise(name, shown):
    assert short(name) == shown


def test_units():
    assert (ms(1_234_567), us(1_234), percent(1, 3), percent(1, 0)) == (1.235, 1.234, 33.3, 0.0)


def test_a_table_that_is_cut_says_so():
    table = Table.of("rows", ["n"], ([i] for i in range(3)))
    assert table.first(3) is table
    assert table.first(2) == Table("rows (first 2 of 3)", ("n",), [(0,), (1,)])


def test_ranks_that_are_alike_are_one_row():
    table = Table.of("ranks", ["rank", "ms"], ([i, 7 if i == 2 else 5] for i in range(4)))
    assert table.folded().rows == [("0–1, 3 (3)", 5), ("2", 7)]


@pytest.mark.parametrize(("head", "first"), [("step", 0), ("rank", "all")])
def test_other_tables_are_not_folded(head, first):
    table = Table.of("rows", [head, "ms"], [[first, 5], [first, 5]])
    assert table.folded() is table
