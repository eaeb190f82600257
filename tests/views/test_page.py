"""A page that is complete in itself, and its tables."""

from chakrakit.insight.rank import Table
from chakrakit.views.charts import Markup
from chakrakit.views.page import cell_text, details, page, table_markup

TABLE = Table.of("times", ("name", "ns"), [("a<b", 1234), ("c", 5)])


def test_nothing_is_fetched_and_titles_are_text():
    made = page("<b>x</b>", {"machine": "m", "": "alone"}, Markup("<p>inside</p>"), footer="end")
    assert made.startswith("<!doctype html>\n<html")
    assert "<h1>&lt;b&gt;x&lt;/b&gt;</h1>" in made
    assert "machine m · alone" in made
    assert "<p>inside</p>" in made
    assert "default-src &#x27;none&#x27;" in made
    assert "http://" not in made.replace("http://www.w3.org", "")


def test_columns_of_numbers_stand_to_the_right():
    made = str(table_markup(TABLE))
    assert "<b>times</b>" in made
    assert '<th>name</th><th class="n">ns</th>' in made
    assert '<td>a&lt;b</td><td class="n">1,234</td>' in made


def test_a_table_may_open_when_asked_with_its_first_rows():
    many = Table.of("many", ("n",), [(i,) for i in range(300)])
    made = str(details(many))
    assert made.startswith("<details><summary>many</summary>")
    assert made.count("<td") == 200


def test_cells_as_people_read_them():
    assert [cell_text(v) for v in ("x", 1234567, 1234.5)] == ["x", "1,234,567", "1,234.5"]
