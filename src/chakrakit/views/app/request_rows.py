"""Rows that are parts of served requests: their colours, their lanes and what the page calls them."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I8, I32, Mask
from chakrakit.insight.rank import KIND_NAMES, RankView
from chakrakit.views.colors import REQUEST_PARTS, color

_MOST_NAMED = 300_000
"""Rows up to which each has its request's number in its name; a name takes some 100 bytes."""


def legend() -> list[dict[str, str]]:
    """The meaning of all codes: the kinds of rows, then the parts of requests."""
    kinds = [{"name": name, "color": color(name)} for name in KIND_NAMES.values()]
    return kinds + [{"name": part, "color": color(kind)} for part, kind in REQUEST_PARTS.items()]


def codes(view: RankView) -> I8:
    """The code of each row in `legend`."""
    rows = _of_requests(view)
    if not rows.any():
        return view.kind
    number = {part: len(KIND_NAMES) + i for i, part in enumerate(REQUEST_PARTS)}
    name, texts = view.names
    of_text = np.array([number.get(text, -1) for text in texts], np.int8)[name]
    coded: I8 = np.where(rows & (of_text >= 0), of_text, view.kind).astype(np.int8)
    return coded


def names(view: RankView) -> tuple[I32, list[str]]:
    """The name of each row, those of requests with the request's number."""
    name, texts = view.names
    rows = np.flatnonzero(_of_requests(view))
    if not len(rows) or len(rows) > _MOST_NAMED:
        return name, texts
    requests = view.trace.column("request", 0)[rows].tolist()
    numbered = [
        f"request {r}: {texts[n]}" for r, n in zip(requests, name[rows].tolist(), strict=True)
    ]
    out = name.copy()
    out[rows] = len(texts) + np.arange(len(rows))
    return out, [*texts, *numbered]


def title(lane: str, view: RankView, row: int) -> str:
    """The title of a row's lane: requests that were served at the same time have a lane each."""
    return lane.replace("thread", "requests") if _of_requests(view)[row] else lane


def _of_requests(view: RankView) -> Mask:
    if "request" not in view.trace.table.column_names:
        return np.zeros(len(view), np.bool_)
    return view.trace.has("request")
