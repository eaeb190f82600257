"""Search over all ranks by name, id or attribute; each request searches as many ranks as a second allows."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.insight.rank import RankView
from chakrakit.trace.codecs import type_code
from chakrakit.trace.model import column_name
from chakrakit.views.app.node import brief
from chakrakit.views.app.shown_run import ShownRun

MOST = 200
"""Hits that an answer lists: more than anybody clicks through; all are counted."""
_SECONDS, _LONGEST = 1.0, 1.5
"""Seconds after which no further rank is begun, and after which a request is answered at the latest."""
_TERM = re.compile(r"^\s*([\w:.\-]+)\s*(>=|<=|!=|=|>|<|~)\s*(.*?)\s*$")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    ">": pc.greater,
    "<": pc.less,
    ">=": pc.greater_equal,
    "<=": pc.less_equal,
}
_TIMES: dict[str, Callable[[RankView], I64]] = {
    "duration": lambda view: view.duration,
    "start": lambda view: view.start,
}
_LATEST = 2.0**61
"""Nanoseconds beyond any run's times (73 years), small enough to add a run's begin to without overflow."""
_UNITS = {"": 1, "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}


def search(side: ShownRun, text: str, first: int) -> dict[str, Any]:
    """Hits in folds of ranks from `first` on, as many as a second allows; `next` is where to continue.

    `next` stays the same while a rank that takes long is still being searched. `text` is a part of a
    name, a node's id, or a comparison: `pg_name=1`, `comm_size>1000000`, `type=COMM_COLL`,
    `duration>2ms`, `name~^aten::mm$` (a regular expression).
    """
    matches = _matcher(text, side)
    hits: list[dict[str, Any]] = []
    total, upto = 0, first
    begun = time.monotonic()
    for fold in side.folds[first:]:
        look = partial(_looked, side, fold.first, matches)
        fold_hits = side.answer((text, fold.first), look, begun + _LONGEST - time.monotonic())
        if (
            fold_hits is None
        ):  # the search of this rank goes on; its result is there on a later request
            break
        total += fold_hits[1]
        hits += fold_hits[0][: MOST - len(hits)]
        upto += 1
        if time.monotonic() - begun > _SECONDS:
            break
    return _answer(side, hits, total, upto)


def ask_again(side: ShownRun, first: int) -> dict[str, Any]:
    """The answer of a search that was not begun: continue at `first`."""
    return _answer(side, [], 0, first)


def _answer(side: ShownRun, hits: list[dict[str, Any]], total: int, upto: int) -> dict[str, Any]:
    return {
        "hits": hits,
        "total": total,
        "next": upto if upto < len(side.folds) else None,
        "ranks": upto,
        "of": len(side.folds),
    }


def _looked(
    side: ShownRun, rank: int, matches: Callable[[RankView], Mask]
) -> tuple[list[dict[str, Any]], int]:
    """A rank's first hits, and how many there are."""
    view = side.view(rank)
    rows = np.flatnonzero(matches(view))
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    return [brief(side, rank, int(row)) for row in rows[:MOST]], len(rows)


def _matcher(text: str, side: ShownRun) -> Callable[[RankView], Mask]:
    text = text.strip()
    if not text:
        raise ConfigError("search for a part of a name, an id, or attribute=value")
    if term := _TERM.match(text):
        return _term(term[1], term[2], term[3], side)
    low = text.lower()
    name_matches = _named(lambda name: low in name.lower())
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        return name_matches
    return lambda view: name_matches(view) | _with_id(view, int(text))


def _named(test: Callable[[str], Any]) -> Callable[[RankView], Mask]:
    return lambda view: view.named(test) if len(view) else np.zeros(0, np.bool_)


def _with_id(view: RankView, number: int) -> Mask:
    if number >= 2**64:
        return np.zeros(len(view), np.bool_)
    return np.asarray(view.trace.ids == np.uint64(number))


def _term(key: str, sign: str, value: str, side: ShownRun) -> Callable[[RankView], Mask]:
    if sign == "~" or key == "name":
        return _by_text(key, sign, value)
    if key in _TIMES:
        nanos = _nanos(key, value)

        def timed(view: RankView) -> Mask:
            moment = nanos + (side.origin if key == "start" else 0)
            return view.ran & _numpy(_COMPARE[sign](pa.array(_TIMES[key](view)), moment))

        return timed
    if key == "type" and not value.lstrip("-").isdecimal():
        value = str(int(type_code(value)))
    return lambda view: _compared(view, key, sign, value)


def _by_text(key: str, sign: str, value: str) -> Callable[[RankView], Mask]:
    if sign not in ("=", "!=", "~"):
        raise ConfigError(f"texts cannot be compared with {sign}; use =, != or ~")

    def hits(texts: list[str]) -> Mask:
        """Which texts match. Expressions come from links and are untrusted: RE2 takes only linear time."""
        if sign != "~":
            return np.array([t == value for t in texts] + [False])
        try:
            matched = pc.match_substring_regex(pa.array([*texts, ""], pa.string()), pattern=value)
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{value!r} is not a regular expression: {error}") from None
        mask: Mask = matched.to_numpy(zero_copy_only=False).copy()
        mask[-1] = False
        return mask

    hits([])  # says at once what is wrong with an expression

    def matches(view: RankView) -> Mask:
        if not len(view):
            return np.zeros(0, np.bool_)
        if key == "name":
            codes, texts = view.names
        elif _is_text(view, key):
            codes, texts = view.texts(key)
        else:
            return np.zeros(len(view), np.bool_)
        mask: Mask = hits(texts)[codes]
        return ~mask if sign == "!=" else mask

    return matches


def _is_text(view: RankView, key: str) -> bool:
    table = view.trace.table
    return key in table.column_names and pa.types.is_string(table.schema.field(key).type)


def _nanos(key: str, value: str) -> int:
    match = re.fullmatch(r"([\d.]+)\s*(|ns|us|µs|ms|s)", value)
    try:
        nanos = float(match[1]) * _UNITS[match[2]] if match else math.nan
    except ValueError:
        nanos = math.nan
    if math.isnan(nanos):
        raise ConfigError(f"{key} {value[:40]!r}: give a time as in 2ms or 15us")
    return round(min(nanos, _LATEST))


def _compared(view: RankView, key: str, sign: str, value: str) -> Mask:
    """Rows whose value in a column compares so; a value of another type than the column's matches no row."""
    name = key if key in ("id", "type") else column_name(key)
    table = view.trace.table
    if name not in table.column_names:
        return np.zeros(len(view), np.bool_)
    column = table.column(name)
    try:
        operand = pa.scalar(value).cast(column.type)
        return _numpy(_COMPARE[sign](column, operand))
    except (pa.ArrowException, OverflowError, ValueError):
        return np.zeros(len(view), np.bool_)


def _numpy(mask: pa.Array | pa.ChunkedArray) -> Mask:
    whole = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    filled: Mask = whole.fill_null(False).to_numpy(zero_copy_only=False)
    return filled
