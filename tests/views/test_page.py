"""A page that is complete in itself, and its tables."""

from chakrakit.insight.rank import Table
from chakrakit.views.charts import Markup
from chakrakit.views.page import cell_text, details, page, table_markup

TABLE = Table.of("times", ("name", "ns"), [("a<b", 1234), ("c", 5)])


def test_nothing_is_fetched_and_titles_are_text():
    markup = page("<b>x</b>", {"machine": "m", "": "alone"}, Markup("<p>inside</p>"), footer="end")
    assert markup.startswith("<!doctype html>\n<html")
    assert "<h1>&lt;b&gt;x&lt;/b&gt;</h1>" in markup
    assert "machine m · alone" in markup
    assert "<p>inside</p>" in markup
    assert "default-src &#x27;none&#x27;" in markup
    assert "http://" not in markup.replace("http://www.w3.org", "")


def test_columns_of_numbers_stand_to_the_right():
    markup = str(table_markup(TABLE))
    assert "<b>times</b>" in markup
    assert '<th>name</th><th class="n">ns</th>' in markup
    assert '<td>a&lt;b</td><td class="n">1,234</td>' in markup


def test_a_table_may_open_when_asked_with_its_first_rows():
    long_table = Table.of("many", ("n",), [(i,) for i in range(300)])
    markup = str(details(long_table))
    assert markup.startswith("<details><summary>many</summary>")
    assert markup.count("<td") == 200


def test_cells_as_people_read_them():
    assert [cell_text(v) for v in ("x", 1234567, 1234.5)] == ["x", "1,234,567", "1,234.5"]
