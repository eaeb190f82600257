"""A column of a trace with some of its values changed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from chakrakit.trace.model import STORAGE_TYPES, Trace, by_name, storage_of_member


def edited(trace: Trace, column: str, edits: list[tuple[int, Any]]) -> pa.Array:
    """The column, if need be a new one of the vocabulary's, with these (row, value); None: no value."""
    if column in trace.table.column_names:
        values = trace.table.column(column).combine_chunks()
    else:
        kind = STORAGE_TYPES[storage_of_member(by_name()[column].member)]
        values = pa.nulls(len(trace), kind)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return _with_numbers(values, edits) if _is_number(values.type) else _with_others(values, edits)


def _with_others(values: pa.Array, edits: list[tuple[int, Any]]) -> pa.Array:
    plain = values.to_pylist()
    for row, value in edits:
        plain[row] = value
    return pa.array(plain, values.type)


def _with_numbers(values: pa.Array, edits: list[tuple[int, Any]]) -> pa.Array:
    has = values.is_valid().to_numpy(zero_copy_only=False).copy()
    found = values.fill_null(0).to_numpy(zero_copy_only=False).copy()
    rows = [row for row, _ in edits]
    has[rows] = [value is not None for _, value in edits]
    found[rows] = [0 if value is None else value for _, value in edits]
    return pa.array(found, values.type, mask=~has)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    )
