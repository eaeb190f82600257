"""Results look small on a screen and lose nothing on the way elsewhere."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from chakrakit.results import (
    Result,
    Spread,
    counted,
    milliseconds_text,
    spread,
    spread_cells,
    table_html,
    three_digits,
)


class Part(msgspec.Struct):
    name: str
    share: float


class Whole(Result, msgspec.Struct):
    title: str
    total: float
    parts: list[Part]
    notes: list[str] = []
    by_name: dict[str, int] = {}


class Notes(Result, msgspec.Struct):
    said: list[str]


class Outer(Result, msgspec.Struct):
    part: Part
    whole: Whole


SMALL = Whole("two parts", 1.0, [Part("a", 0.25), Part("b", 0.75)], ["one note"], {"a": 1})


def test_a_repr_names_every_field_and_counts_what_is_long():
    assert repr(SMALL) == (
        "Whole(title='two parts', total=1, parts=[2 × Part], notes=['one note'], by_name={'a': 1})"
    )


def test_a_repr_stays_on_one_screen_whatever_is_inside():
    large = Whole("x" * 10_000, 1 / 3, [Part("p", 0.0)] * 9_999, ["n" * 999] * 9_999)
    large.by_name = {f"name {i}" * 20: i for i in range(9_999)}
    lines = repr(large).splitlines()
    assert len(repr(large)) <= 1800
    assert lines[2:5] == ["  total=0.333333,", "  parts=[9,999 × Part],", "  notes=[9,999 values],"]


def test_what_is_none_or_empty_is_left_out_unless_everything_is():
    assert repr(Whole("few", 12_345.678, [])) == "Whole(title='few', total=12_345.7)"
    assert repr(Whole("", 0.0, [])) == "Whole(total=0)"
    assert repr(Notes([])) == "Notes(said=[])"


def test_a_struct_inside_another_shows_its_first_plain_values():
    inside = Outer(Part("a", 0.25), Whole("b", 1e-9, [Part("c", 1.0)]))
    assert repr(inside) == (
        "Outer(part=Part(name='a', share=0.25), whole=Whole(title='b', total=1e-09, …))"
    )
    assert inside.to_arrow().to_pylist() == [
        {"part.name": "a", "part.share": 0.25, "whole.title": "b", "whole.total": 1e-9}
    ]


def test_a_notebook_shows_the_fields_and_then_the_rows():
    html = Whole("many", 1_234_567.0, [Part("a", i / 8) for i in range(9)])._repr_html_()
    fields, rows = re.findall(r"<table.*?</table>", html)
    assert re.findall("<td[^>]*>([^<]*)", fields) == ["title", "many", "total", "1,234,567"]
    assert "9 × Part, the first 8 shown" in rows
    assert re.findall("<td[^>]*>([^<]*)", rows)[:4] == ["a", "0", "a", "0.125"]


def test_a_count_has_its_plural():
    assert [counted(n, "body", "bodies") for n in (0, 1, 2000)] == [
        "0 bodies",
        "1 body",
        "2,000 bodies",
    ]


def test_everything_is_in_the_dictionary_and_the_first_list_is_the_table():
    assert SMALL.to_dict() == {
        "title": "two parts",
        "total": 1.0,
        "parts": [{"name": "a", "share": 0.25}, {"name": "b", "share": 0.75}],
        "notes": ["one note"],
        "by_name": {"a": 1},
    }
    assert SMALL.to_arrow().to_pylist() == SMALL.to_dict()["parts"]


def test_without_rows_the_table_has_one_of_the_plain_fields():
    assert Whole("none", 0.5, []).to_arrow().to_pylist() == [{"title": "none", "total": 0.5}]


def test_names_are_text_in_html_and_nothing_else():
    html = Whole("<script>", 0.0, [])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_every_cell_is_escaped():
    """Names come from files, and are text whatever they hold."""
    html = table_html(("a<b",), [("<script>",), (3,)], "x & y")
    assert "<script>" not in html
    for text in ("a&lt;b", "&lt;script&gt;", ">3<", "x &amp; y"):
        assert text in html


def test_mean_and_percentiles_of_a_hundred_and_one() -> None:
    assert spread(np.arange(101.0)) == Spread(50.0, 50.0, 90.0, 95.0, 99.0)
    assert spread(np.zeros(0)) == Spread(0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_large_figure_has_no_exponent() -> None:
    assert [three_digits(v) for v in (0.1384, 29.06, 999.7, 1073.4)] == [
        "0.138",
        "29.1",
        "1,000",
        "1,073",
    ]
    assert three_digits(-1073.4, "+") == "-1,073"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(1234.56, "1,234.6"), (0.1, "0.1"), (0.0131, "0.0131"), (0.0, "0.0"), (4e-6, "0.000004")],
)
def test_milliseconds_are_never_rounded_to_nothing(milliseconds, text):
    assert milliseconds_text(milliseconds) == text


def test_a_figure_of_nothing_is_dashes():
    assert spread_cells(None) == ["–"] * 5
    assert spread_cells(Spread(1.0, 1.0, 2.0, 2.0, 0.05)) == ["1.0", "1.0", "2.0", "2.0", "0.05"]
