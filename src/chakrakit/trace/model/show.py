"""Small HTML tables for notebooks, with every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from chakrakit.results import TABLE_STYLE

SHOWN_ROWS = 8


def table_html(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A table with everything escaped."""
    cells = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escape(str(c))}</td>" for c in row)
        + "</tr>"
        for row in rows
    )
    return (
        f"<table style='{TABLE_STYLE}'><caption style='text-align:left'><b>{escape(caption)}</b></caption>"
        f"<tr>{cells}</tr>{body}</table>"
    )
