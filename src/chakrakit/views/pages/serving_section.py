"""A served stream in a report: what requests wait for, engines and requests over time, the cache."""

from __future__ import annotations

from collections.abc import Iterator

from chakrakit.insight.analysis import Analysis
from chakrakit.insight.serving import EngineFacts, RequestFacts, ServingChange, ServingFacts
from chakrakit.views.charts import Line, Markup, charts, join, line_chart, tag
from chakrakit.views.pages.page import table_markup

_ENGINES = 16
_PARTS = {"queued": "waiting", "prompt": "communication", "output": "compute"}
"""The parts of a request, and the colours they are drawn in."""


def serving_parts(a: Analysis) -> Iterator[Markup]:
    """All of the section; nothing for a run that served no requests."""
    found = a.serving
    if found is None:
        return
    yield table_markup(found.tables()[0])
    rows = [("mean request", [(_PARTS[n], ms) for n, ms in found.parts.items()])]
    yield join(
        tag("p", *(_key(name, kind) for name, kind in _PARTS.items()), class_="legend"),
        charts.figure(
            "Where a request spends its time",
            "The mean request, from arrival to its last token.",
            charts.stacked(rows, max(found.e2e_ms.mean, 1e-12)),
        ),
        charts.figure(
            "Requests from arrival to end",
            f"{len(found.shown):,} of {found.requests:,}, spread over the stream: queue, prompt, output. "
            "Ctrl and scroll to zoom, drag to move, double click for all.",
            _request_lanes(found),
        ),
    )
    yield from _engines(found)
    for table in found.tables()[1:]:
        yield table_markup(table)


def _key(name: str, kind: str) -> Markup:
    return tag("span", tag("i", style=f"background:{charts.color(kind)}"), name)


def _request_lanes(found: ServingFacts) -> Markup:
    names = [f"request {r.request}" for r in found.shown]
    pieces = [
        (
            lane,
            begin,
            end,
            charts.color(_PARTS[part]),
            f"request {r.request}, {part}: {end - begin:,.1f} ms",
        )
        for lane, r in enumerate(found.shown)
        for part, begin, end in _spans(r)
    ]
    last = max((r.finish_ms for r in found.shown), default=1.0)
    return charts.lanes(names, pieces, 0.0, last)


def _spans(r: RequestFacts) -> list[tuple[str, float, float]]:
    moments = (r.arrival_ms, r.scheduled_ms, r.first_ms, r.finish_ms)
    return list(zip(_PARTS, moments[:-1], moments[1:], strict=True))


def _engines(found: ServingFacts) -> Iterator[Markup]:
    """Cache, batch and queue of each engine over time."""
    shown = [e for e in found.engines if e.over_time][:_ENGINES]
    if not shown:
        return
    more = f" The first {_ENGINES} engines." if len(found.engines) > _ENGINES else ""
    level = max(e.cache_capacity for e in shown) or None
    for title, column, unit, most in (
        ("Tokens in the cache", 1, "tokens", level),
        ("Requests in a batch", 2, "requests", None),
        ("Requests in the queue", 3, "requests", None),
    ):
        caption = f"When steps end.{' Dotted: what the cache can hold.' if most else ''}{more}"
        chart = line_chart("", [_line(e, column) for e in shown], "s", unit, level=most)
        yield charts.figure(f"{title} over time", caption, chart)


def _line(e: EngineFacts, column: int) -> Line:
    return Line(f"engine {e.engine}", [(row[0] / 1e3, float(row[column])) for row in e.over_time])


def serving_change_parts(change: ServingChange) -> Iterator[Markup]:
    """Why the mean request takes longer or shorter than in the other run."""
    yield tag(
        "p",
        f"The mean request takes {change.b_ms:,.1f} ms instead of {change.a_ms:,.1f}: {change.sentence}.",
    )
    rows = [
        (
            p.what,
            abs(p.delta_ms),
            f"{p.delta_ms:+,.2f} ms",
            charts.color("slower" if p.delta_ms > 0 else "faster"),
        )
        for p in change.explained[:14]
    ]
    if rows:
        caption = (
            "Parts of the mean request's time, orange longer here, blue shorter; they sum to it."
        )
        yield charts.figure("What explains the requests' difference", caption, charts.bars(rows))
    yield table_markup(change.tables()[1])
