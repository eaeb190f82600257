"""Small SVG charts: everything is where its value puts it, and says what it is on hovering."""

import xml.etree.ElementTree as ET

import pytest

from chakrakit.views import charts
from chakrakit.views.colors import COLORS

SVG = "{http://www.w3.org/2000/svg}"


def parsed(markup):
    return ET.fromstring(str(markup))


def boxes(chart):
    """(x, width, title) of rectangles that have a title."""
    boxes = [(r, r.find(f"{SVG}title")) for r in chart.iter(f"{SVG}rect")]
    return [(float(r.get("x")), float(r.get("width")), t.text) for r, t in boxes if t is not None]


def test_parts_of_a_bar_fill_their_share_one_after_another():
    """Of a hundred: 25 and 75 on the 800 units beside the names."""
    chart = parsed(
        charts.stacked([("r0", [("compute", 25e6), ("copy", 0), ("idle", 75e6)])], 100e6)
    )
    assert boxes(chart) == [
        (90, 200, "r0: compute 25.00 ms (25.0 %)"),
        (290, 600, "r0: idle 75.00 ms (75.0 %)"),
    ]


def test_bars_are_as_long_as_their_values_and_long_names_are_cut():
    chart = parsed(charts.bars([("a" * 50, 2.0, "two", "#111"), ("b", 1.0, "one", "#222")]))
    assert [width for _, width, _ in boxes(chart)] == [440, 220]
    texts = [t.text for t in chart.iter(f"{SVG}text")]
    assert "a" * 45 + "…" in texts
    assert boxes(chart)[0][2] == "a" * 50 + ": two"


def test_pieces_lie_on_their_lanes_in_time():
    chart = parsed(charts.lanes(["x", "y"], [(1, 150, 200, "#111", "piece")], 100, 200))
    ((x, width, title),) = boxes(chart)
    assert (x, width, title) == (490, 400, "piece")
    assert "zoom" in [g.get("class") for g in chart.iter(f"{SVG}g")]


def test_an_area_marks_its_peak():
    chart = parsed(charts.area([(0, 10), (50, 40), (80, 5)], 0, 100))
    (peak,) = chart.iter(f"{SVG}circle")
    assert (float(peak.get("cx")), float(peak.get("cy"))) == (490, 10)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_heatmap_is_darkest_where_there_is_most(size):
    chart = parsed(charts.heatmap(size, [(0, 0, 1.0, "few"), (size - 1, 0, 4.0, "most")]))
    shade = {r.find(f"{SVG}title").text: float(r.get("fill-opacity")) for r in _titled(chart)}
    assert shade == {"few": pytest.approx(0.3625, abs=0.005), "most": 1}


def _titled(chart):
    return [r for r in chart.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


def test_points_below_a_roof():
    """Dots grow with their weight; the roof turns level where 10 TFLOP/s meet 1 TB/s: at 10 FLOP per byte."""
    chart = parsed(charts.scatter([(1, 0.5, 1.0, "a"), (100, 5.0, 4.0, "b")], 10.0, 1000.0))
    radius = {c.find(f"{SVG}title").text: float(c.get("r")) for c in chart.iter(f"{SVG}circle")}
    assert radius == {"a": 7.5, "b": 12}
    (roof,) = chart.iter(f"{SVG}polyline")
    corners = [tuple(map(float, p.split(","))) for p in roof.get("points").split()]
    assert corners[1][1] == corners[2][1] < corners[0][1]
    assert charts.scatter([(0, 1, 1, "nothing")], 1, 1) == ""


def test_a_kind_has_one_colour_and_others_share_one():
    assert charts.color("compute") == COLORS["compute"]
    assert charts.color("nobody knows") == charts.color("never heard of")
