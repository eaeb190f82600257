"""A chart of lines: every point, its margin, the axes and the legend, as XML of its own."""

import xml.etree.ElementTree as ET

import pytest

from chakrakit.views.lines import Line, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines, **more):
    return ET.fromstring(line_chart("Title <1>", lines, "size", "times", **more))


def test_points_lie_where_their_values_are():
    chart = drawn(Line("a", [(1, 0.0), (10, 5.0), (100, 10.0)]), log_x=True)
    (line,) = chart.iter(f"{SVG}polyline")
    places = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
    across, up = [p[0] for p in places], [p[1] for p in places]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1])
    assert up[0] - up[1] == pytest.approx(up[1] - up[2], abs=0.2)


def test_names_axes_margins_and_the_level_are_there():
    chart = drawn(
        Line("a & b", [(1, 2.0), (2, 3.0)], [(1.5, 2.5), (2.75, 3.5)], dashed=True), level=1.0
    )
    texts = [t.text for t in chart.iter(f"{SVG}text")]
    assert {"Title <1>", "a & b", "size", "times", "1", "2"} <= set(texts)
    upright = [r for r in chart.iter(f"{SVG}line") if r.get("x1") == r.get("x2")]
    assert len(upright) == 2
    assert any(r.get("stroke-dasharray") == "2 3" for r in chart.iter(f"{SVG}line"))
    assert next(c.find(f"{SVG}title").text for c in chart.iter(f"{SVG}circle")) == "a & b: 1 → 2"


def said_up(top: float) -> list[float]:
    """The values on the axis of a line up to there."""
    texts = drawn(Line("a", [(1, top / 1.05), (2, 0.0)])).iter(f"{SVG}text")
    return [float(t.text) for t in texts if t.get("text-anchor") == "end"]


@pytest.mark.parametrize(
    ("top", "values"),
    [(9.9, [0, 2, 4, 6, 8]), (17.3, [0, 5, 10, 15]), (0.034, [0, 0.01, 0.02, 0.03])],
)
def test_the_axis_has_round_values(top, values):
    assert sorted(said_up(top)) == pytest.approx(values)


@pytest.mark.parametrize(
    "lines", [[], [Line("one", [(3, 4.0)])], [Line("flat", [(1, 0.0), (2, 0.0)])]]
)
def test_little_to_draw_is_drawn_all_the_same(lines):
    assert "Title <1>" in "".join(drawn(*lines).itertext())
