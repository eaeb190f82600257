"""HTML elements and small SVG charts for the report; titles of shapes appear on hovering.

All text is escaped: names in a trace are untrusted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape

from chakrakit.results import size_text, time_text
from chakrakit.views.colors import color

VOID = frozenset({"meta", "br", "line", "rect", "circle", "path", "polyline"})
_SYMBOLS = {ord(c): 0x2400 + ord(c) for c in map(chr, range(32)) if c not in "\n\t"}
"""Of each control character that XML forbids, Unicode's picture of it."""
_PLAIN = re.compile(r"[^\x00-\x1f&<>\"']*").fullmatch
"""Whether a text, as most of the thousands of a page, can stand in markup as it is."""


class Markup(str):
    """Text that is markup, and is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; `class_` and `stroke_width` become class and stroke-width. Texts are escaped."""
    opening = name
    for key, value in attributes.items():
        if value is not None:
            opening += f' {_attribute_name(key)}="{_escaped(value)}"'
    if name in VOID and not children:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{join(*children)}</{name}>")


@cache
def _attribute_name(keyword: str) -> str:
    return keyword.rstrip("_").replace("_", "-")


def join(*children: object) -> Markup:
    """The children one after another; those that are not Markup are escaped."""
    return Markup("".join([c if isinstance(c, Markup) else _escaped(c) for c in children]))


def _escaped(value: object) -> str:
    """A value as text without markup: floats with two digits, control characters as their symbols."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    text = str(value)
    return text if _PLAIN(text) else escape(text.translate(_SYMBOLS))


WIDTH = 900
"""Units across a chart; a page shows it at about that many pixels."""


def figure(title: str, caption: str, chart: Markup) -> Markup:
    """A chart with a title, a caption, and buttons that save it."""
    save = tag(
        "span",
        tag("button", "SVG", class_="save", data_kind="svg"),
        tag("button", "PNG", class_="save", data_kind="png"),
        class_="buttons",
    )
    return tag("figure", tag("figcaption", tag("b", title), save, tag("p", caption)), chart)


def svg(height: float, *children: object, **more: object) -> Markup:
    """An SVG element with the width of all charts."""
    return tag(
        "svg",
        *children,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        font_family="system-ui, sans-serif",
        font_size=12,
        **more,
    )


def label(x: float, y: float, text: str, anchor: str = "start", **more: object) -> Markup:
    """Text at (x, y)."""
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_="ink", **more)


def box(
    x: float, y: float, width: float, height: float, fill: str, title: str, goto: str | None = None
) -> Markup:
    """A filled rectangle that shows its title on hovering.

    In the web app, a click on a mark with `goto` leads to the timeline: `rank=3&t=0,5000&q=gemm`.
    """
    # Written out, since a page has thousands: through `tag` each takes three times as long.
    sides = f'width="{_escaped(max(width, 0.3))}" height="{_escaped(height)}"'
    leads = "" if goto is None else f' data-goto="{_escaped(goto)}"'
    return Markup(
        f'<rect x="{_escaped(x)}" y="{_escaped(y)}" {sides} fill="{_escaped(fill)}"{leads}>'
        f"<title>{_escaped(title)}</title></rect>"
    )


def legend(kinds: Sequence[str]) -> Markup:
    """A legend of the colours of these kinds."""
    return tag(
        "p",
        *(tag("span", tag("i", style=f"background:{color(k)}"), k) for k in kinds),
        class_="legend",
    )


def stacked(
    rows: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    total: float,
    kinds: Mapping[str, str] | None = None,
    gotos: Sequence[str] = (),
) -> Markup:
    """One bar per row, made of parts in ns; `total` is as long as the chart is wide.

    A part has the colour of its own name, or of the kind of time that `kinds` gives for it. `gotos` say where
    the bar of each row leads to.
    """
    margin, height = (90 if all(len(name) < 14 for name, _ in rows) else 190), 20
    out = []
    for i, (name, parts) in enumerate(rows):
        y, x = 4 + i * height, float(margin)
        out.append(label(margin - 8, y + 13, name, "end"))
        for kind, value in parts:
            width = (WIDTH - margin - 10) * value / total if total else 0
            if value > 0:
                title = f"{name}: {kind} {time_text(value)} ({100 * value / total:.1f} %)"
                fill = color((kinds or {}).get(kind, kind))
                goto = gotos[i] if gotos else None
                out.append(box(x, y, width, height - 5, fill, title, goto))
            x += width
    return svg(8 + len(rows) * height, *out)


def bars(rows: Sequence[tuple[str, float, str, str]], gotos: Sequence[str] = ()) -> Markup:
    """One bar per row: name, value, text beside it, colour; `gotos` say where each leads to."""
    margin, height, most = 330, 20, max((r[1] for r in rows), default=0) or 1
    out = []
    for i, (name, value, text, fill) in enumerate(rows):
        y, width = 4 + i * height, (WIDTH - margin - 130) * value / most
        short_name = name if len(name) <= 46 else name[:45] + "…"
        out.append(label(margin - 8, y + 13, short_name, "end"))
        goto = gotos[i] if gotos else None
        out.append(box(margin, y, width, height - 5, fill, f"{name}: {text}", goto))
        out.append(label(margin + width + 6, y + 13, text))
    return svg(8 + len(rows) * height, *out)


def lanes(
    names: Sequence[str],
    pieces: Sequence[tuple[int, float, float, str, str]],
    start: float,
    end: float,
    gotos: Sequence[str] = (),
) -> Markup:
    """One lane per name with pieces (lane, from, to, colour, title), above a time axis; can be zoomed.

    `gotos` say where each piece leads to.
    """
    margin, height = 90, 26
    scale = (WIDTH - margin - 10) / max(end - start, 1)
    out = []
    for i, name in enumerate(names):
        y = 4 + i * height
        out.append(label(margin - 8, y + 15, name, "end"))
        out.append(
            tag("rect", x=margin, y=y, width=WIDTH - margin - 10, height=height - 6, class_="track")
        )
    boxes = [
        box(
            margin + (a - start) * scale,
            4 + lane * height,
            (b - a) * scale,
            height - 6,
            fill,
            title,
            gotos[i] if gotos else None,
        )
        for i, (lane, a, b, fill, title) in enumerate(pieces)
    ]
    bottom = 4 + len(names) * height
    for i in range(5):
        x = margin + (WIDTH - margin - 10) * i / 4
        text = time_text((end - start) * i / 4) if i else "0"
        out.append(
            label(x, bottom + 14, text, "start" if i == 0 else "end" if i == 4 else "middle")
        )
    return svg(bottom + 22, *out, tag("g", *boxes, class_="zoom", data_left=margin))


def area(points: Sequence[tuple[float, float]], start: float, end: float) -> Markup:
    """A step chart of bytes over time, with the peak marked."""
    margin, height, top = 90, 200, max((v for _, v in points), default=0) or 1
    scale = (WIDTH - margin - 10) / max(end - start, 1)

    def place(at: float, value: float) -> tuple[float, float]:
        return margin + (min(max(at, start), end) - start) * scale, 10 + height * (1 - value / top)

    line = [f"{margin},{10 + height}"]
    before = 0.0
    for at, value in points:
        line.append("{:.1f},{:.1f}".format(*place(at, before)))
        line.append("{:.1f},{:.1f}".format(*place(at, value)))
        before = value
    line.append(
        "{:.1f},{:.1f}".format(*place(end, before))
    )  # nothing is freed after the last sample
    line.append(f"{WIDTH - 10},{10 + height}")
    peak = max(points, key=lambda p: p[1], default=(start, 0.0))
    x, y = place(*peak)
    out = [
        tag(
            "path",
            d="M" + " L".join(line) + " Z",
            fill=color("compute"),
            fill_opacity=0.35,
            stroke=color("compute"),
        )
    ]
    out.append(
        tag("circle", tag("title", f"peak {size_text(peak[1])}"), cx=x, cy=y, r=4, fill="#c0504d")
    )
    out += [
        label(margin - 8, 10 + height * (1 - f) + 4, size_text(top * f), "end") for f in (0, 0.5, 1)
    ]
    out += [
        label(margin, height + 26, "0"),
        label(WIDTH - 10, height + 26, time_text(end - start), "end"),
    ]
    return svg(height + 34, *out)


def heatmap(size: int, cells: Sequence[tuple[int, int, float, str]]) -> Markup:
    """A square of cells (row, column, value, title); larger values are darker."""
    side = min(36.0, 640 / max(size, 1))
    most = max((c[2] for c in cells), default=0) or 1
    out = [tag("rect", x=90, y=20, width=side * size, height=side * size, class_="track")]
    for src, dst, value, title in cells:
        shade = 0.15 + 0.85 * value / most
        out.append(
            tag(
                "rect",
                tag("title", title),
                x=90 + dst * side,
                y=20 + src * side,
                width=side - 0.5,
                height=side - 0.5,
                fill=color("communication"),
                fill_opacity=shade,
            )
        )
    out += [label(90, 14, "to rank 0 …"), label(82, 32, "from rank 0", "end")]
    return svg(30 + side * size, *out)


def scatter(
    points: Sequence[tuple[float, float, float, str]], peak_tflops: float, peak_gbps: float
) -> Markup:
    """Points (intensity, TFLOP/s, weight, title) on logarithmic axes, with the roof if it is known."""
    positive = [p for p in points if p[0] > 0 and p[1] > 0]
    if not positive:
        return Markup("")
    margin, height = 90, 280
    x0, x1 = (
        math.log10(min(p[0] for p in positive)) - 0.3,
        math.log10(max(p[0] for p in positive)) + 0.5,
    )
    if peak_tflops and peak_gbps:  # the roof's corner is in the picture
        corner = math.log10(peak_tflops) - math.log10(peak_gbps / 1e3)
        x0, x1 = min(x0, corner - 0.3), max(x1, corner + 0.3)
    y0 = math.log10(min(p[1] for p in positive)) - 0.3
    y1 = math.log10(max([p[1] for p in positive] + ([peak_tflops] if peak_tflops else []))) + 0.3

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            margin + (WIDTH - margin - 10) * (x - x0) / (x1 - x0),
            10 + height * (1 - (y - y0) / (y1 - y0)),
        )

    out = [label(*_tick(place(x, y0)), f"{10.0**x:,.6g}", "middle") for x in _ticks(x0, x1)]
    out += [
        label(margin - 8, place(x0, y)[1] + 4, f"{10.0**y:,.6g}", "end") for y in _ticks(y0, y1)
    ]
    if peak_tflops and peak_gbps:
        knees = _roof(math.log10(peak_tflops), math.log10(peak_gbps / 1e3), (x0, x1), y0)
        line = " ".join("{:.1f},{:.1f}".format(*place(*k)) for k in knees)
        out.append(tag("polyline", points=line, fill="none", stroke="#c0504d", stroke_width=1.5))
    most = max(p[2] for p in positive)
    for x, y, weight, title in positive:
        out.append(_dot(place(math.log10(x), math.log10(y)), weight / most, title))
    out.append(label(WIDTH - 10, height + 42, "FLOP per byte", "end"))
    out.append(label(margin + 6, 12, "TFLOP/s"))
    return svg(height + 50, *out)


def _roof(
    peak: float, bandwidth: float, across: tuple[float, float], bottom: float
) -> list[tuple[float, float]]:
    """Corners of the roof, all in logarithms: up along the bandwidth, then level at the peak."""
    first = max(across[0], bottom - bandwidth)
    return [(first, first + bandwidth), (peak - bandwidth, peak), (across[1], peak)]


def _dot(center: tuple[float, float], share: float, title: str) -> Markup:
    return tag(
        "circle",
        tag("title", title),
        cx=center[0],
        cy=center[1],
        r=3 + 9 * math.sqrt(share),
        fill=color("compute"),
        fill_opacity=0.55,
    )


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two logarithms, with 2 and 5 times them where there are few."""
    steps = (1, 2, 5) if high - low < 2 else (1,)
    every = [d + math.log10(s) for d in range(math.floor(low), math.ceil(high)) for s in steps]
    return [t for t in every if low <= t <= high - 0.02 * (high - low)]


def _tick(at: tuple[float, float]) -> tuple[float, float]:
    return at[0], at[1] + 16
