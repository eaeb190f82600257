"""Charts of a sweep: grids over two parameters, and points with their Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chakrakit.views.charts import WIDTH, Markup, color, join, label, svg, tag

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98", "#333333")
_LEFT, _TOP, _HEIGHT = 100, 10, 260

Text = Callable[[float], str]
XY = tuple[float, float]


class _Frame:
    """Axes: y from zero to the largest value, x from the smallest to the largest."""

    def __init__(self, points: Sequence[XY]) -> None:
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        self.low, self.high, self.most = min(xs), max(xs), max(ys) or 1.0

    def place(self, x: float, y: float) -> XY:
        across = (x - self.low) / ((self.high - self.low) or 1.0)
        return _LEFT + (WIDTH - _LEFT - 20) * across, _TOP + _HEIGHT * (1 - y / (self.most * 1.05))

    def axes(self, x_text: Text, y_text: Text) -> list[Markup]:
        out = [
            tag(
                "line",
                x1=_LEFT,
                y1=_TOP + _HEIGHT,
                x2=WIDTH - 20,
                y2=_TOP + _HEIGHT,
                stroke="#8a8f98",
            )
        ]
        for part in (0.0, 0.25, 0.5, 0.75, 1.0):
            y = self.most * part
            out.append(label(_LEFT - 8, self.place(self.low, y)[1] + 4, y_text(y), "end"))
            x = self.low + (self.high - self.low) * part
            anchor = "start" if part == 0 else "end" if part == 1 else "middle"
            out.append(label(self.place(x, 0)[0], _TOP + _HEIGHT + 18, x_text(x), anchor))
        return out


def names(lines: Mapping[str, object]) -> Markup:
    """A legend of the names in the colours of PALETTE."""
    marks = [
        tag("span", tag("i", style=f"background:{PALETTE[i % len(PALETTE)]}"), name)
        for i, name in enumerate(lines)
    ]
    return tag("p", *marks, class_="legend")


def _line(frame: _Frame, points: Sequence[XY], stroke: str) -> Markup:
    at = " ".join("{:.1f},{:.1f}".format(*frame.place(*p)) for p in points)
    return tag("polyline", points=at, fill="none", stroke=stroke, stroke_width=2)


def _dot(frame: _Frame, point: XY, fill: str, title: str, radius: float = 4.0) -> Markup:
    x, y = frame.place(*point)
    return tag("circle", tag("title", title), cx=x, cy=y, r=radius, fill=fill)


def front(
    points: Mapping[str, Sequence[tuple[float, float, str]]],
    best: Sequence[tuple[float, float, str]],
    x_text: Text,
    y_text: Text,
) -> Markup:
    """Points (x, y, title) by name, and the best of them as a line with larger points."""
    frame = _Frame([(p[0], p[1]) for series in points.values() for p in series])
    out = frame.axes(x_text, y_text)
    for i, series in enumerate(points.values()):
        fill = PALETTE[i % len(PALETTE)]
        out += [_dot(frame, (x, y), fill, title, 2.5) for x, y, title in series]
    out.append(_line(frame, [(x, y) for x, y, _ in best], "#1d2430"))
    out += [_dot(frame, (x, y), "#1d2430", title, 4.5) for x, y, title in best]
    return join(names(points), svg(_TOP + _HEIGHT + 26, *out))


def grid(
    rows: Sequence[str], columns: Sequence[str], values: Mapping[tuple[int, int], float], text: Text
) -> Markup:
    """A grid with a cell for every row and column; smaller values are darker, a dash means no value."""
    width = min(150.0, (WIDTH - 190) / max(len(columns), 1))
    least, most = min(values.values(), default=0), max(values.values(), default=1)
    out = [
        label(180 + (j + 0.5) * width, 14, _cut(c, width), "middle") for j, c in enumerate(columns)
    ]
    for i, row in enumerate(rows):
        out.append(label(172, 24 + i * 28 + 18, _cut(row, 170), "end"))
        for j, column in enumerate(columns):
            value = values.get((i, j))
            x, y = 180 + j * width, 24 + i * 28
            if value is None:
                out.append(label(x + width / 2, y + 18, "–", "middle"))
                continue
            shade = 0.12 + 0.7 * (most - value) / ((most - least) or 1.0)
            title = f"{row}, {column}: {text(value)}"
            out.append(
                tag(
                    "rect",
                    tag("title", title),
                    x=x,
                    y=y,
                    width=width - 2,
                    height=26,
                    fill=color("compute"),
                    fill_opacity=shade,
                )
            )
            out.append(
                label(x + width / 2 - 1, y + 18, text(value), "middle", pointer_events="none")
            )
    return svg(30 + len(rows) * 28, *out)


def _cut(text: str, width: float) -> str:
    most = max(3, int(width / 7))
    return text if len(text) <= most else text[: most - 1] + "…"
