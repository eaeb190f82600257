"""Small HTML tables for notebooks, with every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SHOWN_ROWS = 8
_STYLE = "font-family:monospace;font-size:90%;border-collapse:collapse"


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
        f"<table style='{_STYLE}'><caption style='text-align:left'><b>{escape(caption)}</b></caption>"
        f"<tr>{cells}</tr>{body}</table>"
    )
