"""The machine as a map: devices below, switches above, every link as busy as it was."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from chakrakit.insight import LinksUse, LinkUse
from chakrakit.results import size_text
from chakrakit.views import charts
from chakrakit.views.charts import Markup, join, tag
from chakrakit.views.page import table_markup

_MOST_DRAWN = 3_000
"""Links that are drawn, the busiest ones: more lines could not be told apart, and a browser would stall."""
_LABELLED = 24
"""Names that fit beside each other."""
_LAYER, _TOP = 110, 30
"""Height of a layer, and of the margin above the first."""
_SHADES = ((0.0, (184, 190, 199)), (0.5, (230, 159, 0)), (1.0, (213, 94, 0)))
"""Grey for an idle link, over orange, to red for one that is always full."""
_NUMBER = re.compile(r"(\d+)")
_BUSIEST = 20
"""Links of the table."""

Place = tuple[float, float]


def network_map(use: LinksUse, stretch: str) -> Markup:
    """The map and the busiest links; `stretch` says over which time."""
    if use.whole:
        stretch = "over the whole run, which does not say when"
    drawn = use.links[:_MOST_DRAWN]
    places = _places(drawn)
    lines = [_line(u, places) for u in reversed(drawn)]  # the busiest on top
    height = max(y for _, y in places.values()) + 60
    left_out = len(use.links) - len(drawn)
    more = f" The busiest {len(drawn):,}; {left_out:,} more are left out." if left_out else ""
    caption = (
        f"Each link {stretch}: grey idle, orange half full, red full; one line for each direction. "
        f"A click on a link opens the rank at its end.{more}"
    )
    chart = charts.svg(height, *lines, *_vertices(places))
    return join(
        charts.figure("How busy the links were", caption, chart), table_markup(use.table(_BUSIEST))
    )


def _line(use: LinkUse, places: dict[str, Place]) -> Markup:
    (x0, y0), (x1, y1) = places[use.src], places[use.dst]
    aside = 1.5 if (y0, x0) < (y1, x1) else -1.5  # the two directions lie beside each other
    share = min(use.utilization, 1.0)
    title = (
        f"{use.src} → {use.dst}: {100 * use.utilization:.1f} % of {use.bandwidth / 1e9:,.1f} GB/s, "
        f"{size_text(use.bytes)}"
    )
    if y0 == y1:  # neighbours of a ring or a torus: an arc below
        bend = y0 + 14 + min(abs(x1 - x0) / 6, 40) + 3 * aside
        path = f"M{x0:.1f},{y0 + 8:.1f} Q{(x0 + x1) / 2:.1f},{bend:.1f} {x1:.1f},{y1 + 8:.1f}"
    else:
        path = f"M{x0 + aside:.1f},{y0:.1f} L{x1 + aside:.1f},{y1:.1f}"
    return tag(
        "path",
        tag("title", title),
        d=path,
        fill="none",
        stroke=shade(share),
        stroke_width=1.2 + 2.8 * share,
        class_="link",
        data_goto=f"rank={use.rank}" if use.rank >= 0 else None,
    )


def shade(share: float) -> str:
    """The colour of a link that is busy for this share of the time."""
    for (low, dark), (high, bright) in itertools.pairwise(_SHADES):
        if share <= high:
            at = (share - low) / (high - low)
            mixed = (round(a + (b - a) * at) for a, b in zip(dark, bright, strict=True))
            return "#" + "".join(f"{part:02x}" for part in mixed)
    return shade(1.0)


def _vertices(places: dict[str, Place]) -> Iterable[Markup]:
    per_layer: dict[float, int] = {}
    for _, y in places.values():
        per_layer[y] = per_layer.get(y, 0) + 1
    for name, (x, y) in places.items():
        wide = min(10.0, 0.6 * (charts.WIDTH - 40) / per_layer[y])
        yield tag(
            "rect",
            tag("title", name),
            x=x - wide / 2,
            y=y - 5,
            width=wide,
            height=10,
            rx=2,
            class_="vertex",
        )
        if per_layer[y] <= _LABELLED:
            short = name.removeprefix("device ") if per_layer[y] > 8 else name
            yield charts.label(x, y - 9 if y < _TOP + _LAYER else y + 20, short, "middle")


def _places(links: Iterable[LinkUse]) -> dict[str, Place]:
    """Where each end of a link is drawn: devices lowest, and above what is one link, two links, … away."""
    near: dict[str, set[str]] = {}
    for u in links:
        near.setdefault(u.src, set()).add(u.dst)
        near.setdefault(u.dst, set()).add(u.src)
    layers = [sorted((v for v in near if v.startswith("device ")), key=_natural)]
    if not layers[
        0
    ]:  # a machine that names its devices itself: those with the fewest links are the leaves
        fewest = min(map(len, near.values()))
        layers = [sorted((v for v in near if len(near[v]) == fewest), key=_natural)]
    seen = set(layers[0])
    while above := {v for u in layers[-1] for v in near[u]} - seen:
        place = {v: i for i, v in enumerate(layers[-1])}
        seen |= above
        layers.append(sorted(above, key=lambda v: (_middle(near[v], place), _natural(v))))
    if rest := sorted(set(near) - seen, key=_natural):
        layers.append(rest)
    bottom = _TOP + _LAYER * (len(layers) - 1)
    return {
        v: ((i + 0.5) * (charts.WIDTH - 40) / len(layer) + 20, bottom - _LAYER * number)
        for number, layer in enumerate(layers)
        for i, v in enumerate(layer)
    }


def _middle(near: set[str], place: dict[str, int]) -> float:
    below = [place[v] for v in near if v in place]
    return sum(below) / len(below)


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts `device 10` after `device 9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name)]
