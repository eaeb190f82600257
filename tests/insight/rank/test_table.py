"""Tables for people: cut with a word about it, names shortened, units rounded."""

from __future__ import annotations

import pytest

from chakrakit.insight.rank.table import Table, ms, percent, short, us


def test_a_cut_table_says_how_many_rows_there_were():
    table = Table.of("ranks", ["rank"], ([i] for i in range(2000)))
    assert table.first(2) == Table("ranks (first 2 of 2,000)", ("rank",), [(0,), (1,)])
    assert table.first(2000) is table


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("void at::native::copy_kernel<float>(float*, int)", "copy_kernel<float>"),
        ("(anonymous namespace)::softmax(int)", "softmax"),
        ("aten::mm", "aten::mm"),
        ("x" * 61, "x" * 59 + "…"),
    ],
)
def test_kernels_are_shown_without_what_all_of_them_have(name, shown):
    assert short(name) == shown


def test_units_are_rounded_to_what_a_clock_tells():
    assert (ms(1_234_567), us(1_234.4), percent(1, 3), percent(1, 0)) == (1.235, 1.234, 33.3, 0.0)
