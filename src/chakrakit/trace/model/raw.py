"""Attributes kept as bytes: what a column could not hold, each with its length before it."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

import chakrakit.core as core
from chakrakit.arrays import I32
from chakrakit.trace.model import wire
from chakrakit.trace.model.layouts import Layout, Layouts

COLUMN = "_raw"


def without(
    table: pa.Table, layouts: Layouts, rows: I32, name: str
) -> tuple[pa.Table, Layouts, I32]:
    """Table, layouts and rows' layout numbers without the attributes of this name kept as bytes."""
    if COLUMN not in table.column_names:
        return table, layouts, rows
    column: list[bytes | None] = table.column(COLUMN).to_pylist()
    changed: dict[int, Layout] = {}
    for row, data in enumerate(column):
        if data is None or name.encode() not in data:
            continue
        kept = [_name(message) != name for message in wire.frames(data)]
        if not all(kept):
            left = (m for m, keep in zip(wire.frames(data), kept, strict=True) if keep)
            column[row] = b"".join(map(wire.frame, left)) or None
            changed[row] = layouts.items[rows[row]].with_raw(kept)
    if not changed:
        return table, layouts, rows
    layouts, numbers = layouts.merge(Layouts(tuple(changed.values())))
    rows = rows.copy()
    rows[list(changed)] = numbers
    at = table.column_names.index(COLUMN)
    return table.set_column(at, COLUMN, pa.array(column, pa.binary())), layouts, rows


def _name(attribute: bytes) -> str:
    node = np.frombuffer(wire.frame(wire.field_bytes(10, attribute)), np.uint8)
    found: str = msgspec.json.decode(core.json_nodes(node, True))["attr"][0]["name"]
    return found
