"""Tables for notebooks: names come from files, and are text whatever they hold."""

from chakrakit.trace.model import table_html


def test_every_cell_is_escaped():
    html = table_html(("a<b",), [("<script>",), (3,)], "x & y")
    assert "<script>" not in html
    for text in ("a&lt;b", "&lt;script&gt;", ">3<", "x &amp; y"):
        assert text in html
