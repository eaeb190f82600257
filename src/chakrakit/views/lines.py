"""A chart of lines over one axis, such as the results of a sweep; its SVG is a complete file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chakrakit.views.charts import Markup, tag

WIDTH, HEIGHT = 900, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 690, 34, 334
_COLORS = ("#2a78b8", "#d9822b", "#6aa84f", "#b0468f", "#c0504d", "#8a8f98", "#3f8f8f", "#7a5c3e")


class Line(NamedTuple):
    """A named line of (x, y) points; `bounds` are the ends of each one's interval."""

    name: str
    points: Sequence[tuple[float, float]]
    bounds: Sequence[tuple[float, float]] = ()
    dashed: bool = False


@dataclass(frozen=True)
class _Plane:
    """Maps values to places: x from its least to its most, linear or logarithmic; y from 0 to `top`."""

    least: float
    most: float
    top: float
    log_x: bool

    def x(self, value: float) -> float:
        at = math.log10(value) if self.log_x else value
        return _LEFT + (_RIGHT - _LEFT) * (at - self.least) / (self.most - self.least or 1)

    def y(self, value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / self.top


def line_chart(
    title: str,
    lines: Sequence[Line],
    x: str,
    y: str,
    *,
    log_x: bool = False,
    level: float | None = None,
) -> Markup:
    """Lines with axes named `x` and `y` and a legend; `level` is a dotted line to compare with."""
    plane = _plane(lines, log_x, level)
    out = [_text(_LEFT, 14, title, font_weight="bold"), *_axes(plane, lines, x, y)]
    if level is not None:
        out.append(_rule(_LEFT, _RIGHT, plane.y(level), "#000", stroke_dasharray="2 3"))
    for i, line in enumerate(lines):
        fill = _COLORS[i % len(_COLORS)]
        out += _drawn(plane, line, fill)
        beside = _TOP + 12 + 18 * i
        out.append(_rule(_RIGHT + 12, _RIGHT + 34, beside, fill, **_stroke(line)))
        out.append(_text(_RIGHT + 40, beside + 4, line.name))
    return tag(
        "svg",
        *out,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        font_family="system-ui, sans-serif",
        font_size=12,
        style="background:#fff",
    )


def _plane(lines: Sequence[Line], log_x: bool, level: float | None) -> _Plane:
    across = [math.log10(p[0]) if log_x else p[0] for line in lines for p in line.points] or [0.0]
    up = [high for line in lines for _, high in line.bounds]
    up += [p[1] for line in lines for p in line.points] + [level or 0.0]
    return _Plane(min(across), max(across), 1.05 * max(up) or 1.0, log_x)


def _axes(plane: _Plane, lines: Sequence[Line], x: str, y: str) -> list[Markup]:
    out = [
        _text(_LEFT, _TOP - 6, y, fill="#8a8f98"),
        _text((_LEFT + _RIGHT) / 2, HEIGHT - 8, x, "middle"),
    ]
    for value in _round_values(plane.top):
        out.append(_rule(_LEFT, _RIGHT, plane.y(value), "#e3e5e8"))
        out.append(_text(_LEFT - 8, plane.y(value) + 4, f"{value:g}", "end"))
    marks = sorted({p[0] for line in lines for p in line.points})
    return out + [_text(plane.x(m), _BOTTOM + 18, f"{m:g}", "middle") for m in marks]


def _round_values(top: float) -> list[float]:
    """0 and up to five larger values, a round number apart."""
    power = 10.0 ** math.floor(math.log10(top / 5))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= top / 5)
    return [k * step for k in range(int(top / step) + 1)]


def _drawn(plane: _Plane, line: Line, fill: str) -> list[Markup]:
    """The line, its error bars, and its points, which show their values on hovering."""
    places = [(plane.x(a), plane.y(b)) for a, b in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    out = [tag("polyline", points=path, fill="none", stroke=fill, **_stroke(line))]
    for (a, _), (low, high) in zip(line.points, line.bounds, strict=False):
        out += _error_bar(plane.x(a), plane.y(low), plane.y(high), fill)
    for (a, b), (cx, cy) in zip(line.points, places, strict=True):
        title = tag("title", f"{line.name}: {a:g} → {b:.4g}")
        out.append(tag("circle", title, cx=cx, cy=cy, r=3, fill=fill))
    return out


def _error_bar(x: float, low: float, high: float, stroke: str) -> list[Markup]:
    caps = [_rule(x - 4, x + 4, y, stroke) for y in (low, high)]
    return [tag("line", x1=x, x2=x, y1=low, y2=high, stroke=stroke), *caps]


def _stroke(line: Line) -> dict[str, object]:
    return {"stroke_width": 2, "stroke_dasharray": "5 4" if line.dashed else None}


def _rule(x1: float, x2: float, y: float, stroke: str, **more: object) -> Markup:
    return tag("line", x1=x1, x2=x2, y1=y, y2=y, stroke=stroke, **more)


def _text(x: float, y: float, text: str, anchor: str = "start", **more: object) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, **more)
