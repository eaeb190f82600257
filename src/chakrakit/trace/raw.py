"""Attributes kept raw: those whose value does not fit their column, as the bytes they came in.

A row's `_raw` holds them one after another, each with its length before it; its layout has an entry
without a name for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chakrakit.trace.layouts import Layout, Layouts

if TYPE_CHECKING:
    from chakrakit.trace.trace import Trace


def split(text: bytes) -> list[bytes]:
    """The AttributeProto messages of a row."""
    found, at = [], 0
    while at < len(text):
        size, at = _varint(text, at)
        found.append(text[at : at + size])
        at += size
    return found


def name_of(attribute: bytes) -> bytes:
    """The name in an AttributeProto: the last one, as protobuf has it."""
    return next((value for field, value in reversed(list(_fields(attribute))) if field == 1), b"")


def without(trace: Trace, name: str) -> Trace:
    """The trace less the raw attributes of this name."""
    if "_raw" not in trace.table.column_names:
        return trace
    column, rows = trace.table.column("_raw"), trace._layout_rows.copy()
    items, texts = list(trace.layouts.items), column.to_pylist()
    changed = False
    for row in np.flatnonzero(column.is_valid().to_numpy()).tolist():
        keep = [name_of(a) != name.encode() for a in split(texts[row])]
        if all(keep):
            continue
        changed = True
        texts[row] = _joined([a for a, k in zip(split(texts[row]), keep, strict=True) if k]) or None
        items.append(_less(items[rows[row]], keep))
        rows[row] = len(items) - 1
    if not changed:
        return trace
    layouts, renumbered = Layouts(()).merge(Layouts(tuple(items)))
    place = trace.table.column_names.index
    table = trace.table.set_column(place("_raw"), "_raw", pa.array(texts, pa.binary()))
    table = table.set_column(place("_layout"), "_layout", pa.array(renumbered[rows]))
    return type(trace)(table, layouts, trace.metadata)


def _less(layout: Layout, keep: list[bool]) -> Layout:
    """The layout without the raw entries that are not kept."""
    answers = iter(keep)
    entries = tuple(e for e in layout.entries if e[0] is not None or next(answers, True))
    return Layout(layout.flags, entries)


def _joined(attributes: list[bytes]) -> bytes:
    from chakrakit.trace.wire import frame

    return b"".join(map(frame, attributes))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Field numbers, with the content of length-delimited ones."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        size = {1: 8, 5: 4}.get(tag & 7, 0)
        if tag & 7 == 0:
            _, at = _varint(message, at)
        elif tag & 7 == 2:
            size, at = _varint(message, at)
        yield tag >> 3, message[at : at + size] if tag & 7 == 2 else b""
        at += size


def _varint(text: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(text):
        byte = text[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return value, at
