"""Maps of two parameters, and points with their front."""

import re
import xml.etree.ElementTree as ET

from chakrakit.views import plots

SVG = "{http://www.w3.org/2000/svg}"


def parsed(markup):
    return ET.fromstring(re.search(r"<svg.*</svg>", str(markup), re.DOTALL)[0])


def test_cells_are_darker_for_less_and_empty_where_there_is_no_value():
    chart = parsed(plots.grid(["a", "b"], ["x"], {(0, 0): 1.0}, "{:g} s".format))
    (cell,) = chart.iter(f"{SVG}rect")
    assert cell.find(f"{SVG}title").text == "a, x: 1 s"
    assert "–" in [t.text for t in chart.iter(f"{SVG}text")]
    two = parsed(plots.grid(["a"], ["x", "y"], {(0, 0): 1.0, (0, 1): 3.0}, "{:g}".format))
    shades = [float(r.get("fill-opacity")) for r in two.iter(f"{SVG}rect")]
    assert shades == [0.82, 0.12]


def test_long_names_are_cut_to_their_column():
    chart = parsed(plots.grid(["a"], ["x" * 80] * 20, {(0, 0): 1.0}, str))
    texts = [t.text for t in chart.iter(f"{SVG}text")]
    assert "x" * 4 + "…" in texts


def test_points_are_in_the_colour_of_their_name_and_the_front_on_top():
    points = {"one": [(0.0, 10.0, "p"), (10.0, 5.0, "q")], "two": [(5.0, 5.0, "r")]}
    markup = plots.front(points, [(0.0, 10.0, "p"), (5.0, 5.0, "r")], "{:g}".format, "{:g}".format)
    chart = parsed(markup)
    dots = [
        (c.find(f"{SVG}title").text, c.get("fill"), c.get("r")) for c in chart.iter(f"{SVG}circle")
    ]
    assert dots == [
        ("p", plots.PALETTE[0], "2.5"),
        ("q", plots.PALETTE[0], "2.5"),
        ("r", plots.PALETTE[1], "2.5"),
        ("p", "#1d2430", "4.5"),
        ("r", "#1d2430", "4.5"),
    ]
    (line,) = chart.iter(f"{SVG}polyline")
    first, second = (tuple(map(float, p.split(","))) for p in line.get("points").split())
    assert first[0] == 100
    assert first[1] < second[1]
    assert str(markup).index("one") < str(markup).index("two")
