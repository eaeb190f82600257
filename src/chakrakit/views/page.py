"""HTML pages that work offline, with style and script inside; and tables on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from chakrakit.insight import Answer
from chakrakit.insight.rank import Cell, Table
from chakrakit.views.charts import Markup, join, tag

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)
"""What such a page may do: run its own script, and fetch nothing."""


def page(title: str, facts: Mapping[str, str], *content: Markup, footer: str) -> str:
    """A whole page. `facts` are labels and texts that say where its subject comes from."""
    facts_line = " · ".join(f"{k} {v}" if k else v for k, v in facts.items())
    body = tag(
        "main",
        tag("h1", title),
        tag("p", facts_line, class_="facts"),
        *content,
        tag("footer", footer),
        tag("div", id="tip"),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", f"{title} – report"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("style", _asset("report.css")),
    )
    return "<!doctype html>\n" + tag(
        "html", head, tag("body", body, tag("script", _asset("report.js"))), lang="en"
    )


def answer_card(answer: Answer) -> Markup:
    """A question, the figure that answers it, and a sentence."""
    bar = tag("div", tag("i", style=f"width:{min(100 * answer.share, 100):.1f}%"), class_="share")
    sentence = answer.sentence.replace(" %", "\u00a0%")  # not broken over lines
    return tag(
        "div",
        tag("h3", answer.question),
        tag("div", answer.figure, class_="figure"),
        bar if answer.share else "",
        tag("p", sentence),
        class_="answer",
    )


def _asset(name: str) -> Markup:
    return Markup(resources.files("chakrakit.views").joinpath(name).read_text("utf-8"))


def details(table: Table) -> Markup:
    """A table that opens on a click."""
    return tag("details", tag("summary", table.title), table_markup(table.first(200), titled=False))


def table_markup(table: Table, titled: bool = True) -> Markup:
    """A table as HTML; columns of numbers are aligned to the right."""
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
    """A cell as text; numbers with thousands separators."""
    return value if isinstance(value, str) else f"{value:,}"
