"""A forest plot: one row per case, a dot with its interval on a logarithmic axis, and a line at 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from chakrakit.views.charts import Markup, tag

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 900, 380, 880, 40, 16


class Dot(NamedTuple):
    """A figure with its interval; `pale` for one that should be 1."""

    name: str
    value: float
    low: float
    high: float
    pale: bool = False


def forest_chart(title: str, dots: Sequence[Dot], axis: str, band: tuple[float, float]) -> Markup:
    """Dots by row; `band` is the range that was claimed, shaded."""
    finite = [d for d in dots if math.isfinite(d.value) and d.value > 0]
    values = [v for d in finite for v in (d.low, d.high)] + [1.0, *band]
    least, most = min(values) / 1.1, max(values) * 1.1
    bottom = _TOP + _ROW * len(dots) + 8

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * math.log(value / least) / math.log(most / least)

    shade = {"x": x(band[0]) - 1, "width": x(band[1]) - x(band[0]) + 2, "y": _TOP - 8}
    out = [
        tag("text", title, x=12, y=18, font_weight="bold"),
        tag("rect", **shade, height=bottom - _TOP + 8, fill="#f6d998"),
        tag(
            "line", x1=x(1), x2=x(1), y1=_TOP - 8, y2=bottom, stroke="#000", stroke_dasharray="2 3"
        ),
    ]
    for mark in _marks(least, most):
        out.append(tag("text", f"{mark:g}", x=x(mark), y=bottom + 16, text_anchor="middle"))
        out.append(tag("line", x1=x(mark), x2=x(mark), y1=bottom, y2=bottom + 4, stroke="#000"))
    out.append(tag("text", axis, x=(_LEFT + _RIGHT) / 2, y=bottom + 34, text_anchor="middle"))
    for i, dot in enumerate(dots):
        y = _TOP + _ROW * (i + 0.5)
        out.append(tag("text", dot.name, x=_LEFT - 12, y=y + 4, text_anchor="end"))
        if dot in finite:
            out += _drawn(dot, y, x(dot.low), x(dot.value), x(dot.high))
    return tag(
        "svg",
        *out,
        viewBox=f"0 0 {_WIDTH} {bottom + 44}",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        font_family="system-ui, sans-serif",
        font_size=11,
        style="background:#fff",
    )


def _drawn(dot: Dot, y: float, low: float, value: float, high: float) -> list[Markup]:
    color = "#8a8f98" if dot.pale else "#2a78b8"
    spoken = tag("title", f"{dot.name}: {dot.value:.3g} ({dot.low:.3g} to {dot.high:.3g})")
    return [
        tag("line", x1=low, x2=high, y1=y, y2=y, stroke=color, stroke_width=2),
        tag("circle", spoken, cx=value, cy=y, r=4, fill=color),
    ]


def _marks(least: float, most: float) -> list[float]:
    """Round values between the ends."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    every = [m * 10.0**p for p in powers for m in (1, 1.2, 1.5, 2, 3, 5, 7)]
    inside = [v for v in every if least <= v <= most]
    coarse = [v for v in inside if f"{v:e}"[:3] in ("1.0", "2.0", "5.0")]
    return inside if len(inside) <= 10 else coarse
