"""A page that is complete in itself: style and script inside, nothing fetched; and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from chakrakit.insight.rank import Cell, Table
from chakrakit.views.charts import Markup, join, tag

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)


def page(title: str, facts: Mapping[str, str], *content: Markup, footer: str) -> str:
    """The whole page. `facts` are short lines about where its subject comes from."""
    told = " · ".join(f"{k} {v}" if k else v for k, v in facts.items())
    body = tag(
        "main",
        tag("h1", title),
        tag("p", told, class_="facts"),
        *content,
        tag("footer", footer),
        tag("div", id="tip"),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", f"{title} – report"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("style", _asset("report.css")),
    )
    return "<!doctype html>\n" + tag(
        "html", head, tag("body", body, tag("script", _asset("report.js"))), lang="en"
    )


def _asset(name: str) -> Markup:
    return Markup(resources.files("chakrakit.views").joinpath(name).read_text("utf-8"))


def details(table: Table) -> Markup:
    """A table that opens when asked."""
    return tag("details", tag("summary", table.title), table_markup(table.first(200), titled=False))


def table_markup(table: Table, titled: bool = True) -> Markup:
    """A table; columns of numbers to the right."""
    numeric = [
        all(isinstance(row[i], (int, float)) for row in table.rows) for i in range(len(table.head))
    ]
    head = tag("tr", *_cells("th", table.head, numeric))
    rows = [tag("tr", *_cells("td", row, numeric)) for row in table.rows]
    title = tag("p", tag("b", table.title)) if titled else ""
    return join(
        title, tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll")
    )


def _cells(name: str, row: Sequence[Cell], numeric: list[bool]) -> list[Markup]:
    return [
        tag(name, cell_text(c), class_="n" if n else None)
        for c, n in zip(row, numeric, strict=True)
    ]


def cell_text(value: Cell) -> str:
    """A cell as people read it."""
    return value if isinstance(value, str) else f"{value:,}"
