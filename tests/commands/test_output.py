"""What commands print for people: tables that fit, and text that a terminal does not obey."""

from __future__ import annotations

import pytest

from chakrakit.commands import terminal
from chakrakit.commands.output import clean, print_table, print_tables
from chakrakit.commands.terminal import broken, table_lines
from chakrakit.insight.rank import Table


def test_control_characters_are_shown_and_not_sent():
    assert clean("a\x1b[31mred\x07\tb\nc") == "a\\x1b[31mred\\x07\tb\nc"


def test_numbers_stand_to_the_right_and_text_to_the_left(capsys):
    print_table(("name", "bytes"), [("a", 1_234_567), ("long name", 8)])
    assert capsys.readouterr().out.splitlines() == [
        "name           bytes",
        "a          1,234,567",
        "long name          8",
    ]


def test_notes_come_first_and_tables_are_cut_and_say_so(capsys):
    tables = [Table.of("rows", ["n"], [[i] for i in range(5)]), Table.of("none", ["n"], [])]
    print_tables(["careful"], tables, 2)
    out = capsys.readouterr().out
    assert out.startswith("note: careful\nrows (first 2 of 5)")
    assert "none" not in out


def test_a_sentence_is_broken_at_words_below_its_own_indent():
    assert broken("  the device bounds it, by far", 16) == [
        "  the device",
        "  bounds it, by",
        "  far",
    ]


def test_a_command_at_the_end_of_a_line_can_be_copied():
    command = "chakra generate run --kernel flash -o run.changed"
    assert broken(f"  To try it yourself: {command}", 30) == [
        "  To try it yourself:",
        f"  {command}",
    ]
    assert broken("more: chakra view run", 80) == ["more: chakra view run"]


NUMBERS = ["name", "busy time ms", "bytes"], [["a kernel of a name", "1.5", "1,073,741,824"]]


@pytest.mark.parametrize("width", [80, 36, 30])
def test_a_table_is_as_narrow_as_asked_and_its_numbers_stay_whole(width):
    lines = table_lines(*NUMBERS, width)
    assert max(map(len, lines)) <= width
    assert "1,073,741,824" in " ".join(lines)
    words = sorted(" ".join(lines).split())
    assert words == sorted(" ".join([*NUMBERS[0], *NUMBERS[1][0]]).split())


def test_numbers_that_cannot_fit_are_not_cut():
    assert "1,073,741,824" in "".join(table_lines(*NUMBERS, 10))


def test_columns_of_zeros_are_left_out_where_a_table_is_too_wide(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "PIPE_WIDTH", 30)
    head = ["rank", *(f"{name}ing" for name in ("comput", "wait", "copy", "load"))]
    print_tables([], [Table.of("time", head, [(0, 1.5, 0.0, 0, 2.5)])], 5)
    out = capsys.readouterr().out
    assert out.startswith("time; columns of zeros are left out\n")
    assert "waiting" not in out
    assert "2.5" in out
