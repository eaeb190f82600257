"""Markup: whatever a trace calls its nodes stays text."""

from chakrakit.views.charts import Markup, join, tag


def test_texts_and_attributes_are_escaped():
    markup = tag("p", "<b>", class_='x"y')
    assert markup == '<p class="x&quot;y">&lt;b&gt;</p>'


def test_markup_inside_markup_stays():
    assert tag("p", tag("b", "x"), " & ") == "<p><b>x</b> &amp; </p>"
    assert isinstance(join("a", Markup("<i/>")), Markup)


def test_names_of_attributes_and_short_numbers():
    assert tag("rect", stroke_width=1.5, x=2.0, title=None) == '<rect stroke-width="1.5" x="2"/>'


def test_a_void_element_with_children_is_closed():
    assert tag("circle", tag("title", "t")) == "<circle><title>t</title></circle>"


def test_control_characters_become_pictures_of_themselves():
    assert join("a\0b\x1b\n") == "a\u2400b\u241b\n"
