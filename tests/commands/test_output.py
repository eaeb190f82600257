"""What commands print for people: tables that fit, and text that a terminal does not obey."""

from __future__ import annotations

from chakrakit.commands.output import clean, print_table, print_tables
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
