"""Columns between the core and Arrow: buffers are shared, never copied.

Public columns of a table of nodes are the schema's fields, then one column per attribute. Private
ones start with an underscore and exist to write back what was read: `_layout`, `_raw`, `_unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, U8, U64
from chakrakit.errors import TraceError
from chakrakit.trace.model.layouts import Layouts
from chakrakit.trace.model.schema import Member
from chakrakit.trace.model.vocabulary import by_name
from chakrakit.trace.model.wire import RANGES

IO_COLUMNS = tuple(
    f"{side}_{part}"
    for side in ("inputs", "outputs")
    for part in ("values", "shapes", "types", "strides")
)
FIELD_TYPES: dict[str, pa.DataType] = {
    "id": pa.uint64(),
    "name": pa.dictionary(pa.int32(), pa.string()),
    "type": pa.int32(),
    "start_time_micros": pa.uint64(),
    "duration_micros": pa.uint64(),
    "ctrl_deps": pa.list_(pa.uint64()),
    "data_deps": pa.list_(pa.uint64()),
    **dict.fromkeys(IO_COLUMNS, pa.string()),
}
_DEFAULTS: dict[str, Any] = {"start_time_micros": 0, "duration_micros": 0, "type": 0, "name": ""}
PRIVATE_TYPES: dict[str, pa.DataType] = {
    "_layout": pa.int32(),
    **dict.fromkeys(("_inputs_unknown", "_outputs_unknown", "_raw", "_unknown"), pa.binary()),
}

INT, DOUBLE, BOOL, STRING, BINARY = range(5)
_SCALAR_TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.binary())
STORAGE_TYPES: tuple[pa.DataType, ...] = (*_SCALAR_TYPES, *(pa.list_(t) for t in _SCALAR_TYPES))
_DEFAULT_MEMBERS = (
    Member.int64_val,
    Member.double_val,
    Member.bool_val,
    Member.string_val,
    Member.bytes_val,
)


def storage_of_member(member: int) -> int:
    """Which of STORAGE_TYPES holds values of this oneof member."""
    scalar = member - 1 if member % 2 == 0 else member
    if scalar <= Member.float_val:
        base = DOUBLE
    elif scalar <= Member.sfixed64_val:
        base = INT
    else:
        base = {Member.bool_val: BOOL, Member.string_val: STRING, Member.bytes_val: BINARY}[
            Member(scalar)
        ]
    return base + (5 if member % 2 == 0 else 0)


def column_name(attribute: str) -> str:
    """The attribute's column: its name, or `attr:NAME` where a field of the node has that name."""
    reserved = attribute in FIELD_TYPES or attribute.startswith(("_", "attr:")) or not attribute
    return f"attr:{attribute}" if reserved else attribute


def attribute_name(column: str) -> str | None:
    """The attribute behind a column; None for the node's own fields and private columns."""
    if column in FIELD_TYPES or column.startswith("_"):
        return None
    return column.removeprefix("attr:")


def is_known(name: str) -> bool:
    """Whether a column is a field of the node or an attribute of the vocabulary."""
    return name in FIELD_TYPES or (attribute_name(name) or name) in by_name()


def known_columns() -> list[tuple[str, int]]:
    """Name and storage type of every attribute of the vocabulary, for the decoder."""
    return [(a.name, storage_of_member(a.member)) for a in by_name().values()]


def member_for(attribute: str, kind: pa.DataType) -> Member:
    """The oneof member to write: the vocabulary's, else what the column's type suggests."""
    entry = by_name().get(attribute)
    if entry is not None:
        return entry.member
    storage = STORAGE_TYPES.index(storage_type(kind, attribute))
    base = _DEFAULT_MEMBERS[storage % 5]
    return Member(base + 1) if storage >= 5 else base


def storage_type(kind: pa.DataType, name: str) -> pa.DataType:
    """The storage type values of this Arrow type are kept in."""
    if pa.types.is_dictionary(kind):
        return storage_type(kind.value_type, name)
    if _is_list(kind) and not _is_list(kind.value_type):
        return pa.list_(storage_type(kind.value_type, name))
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_null(kind):
        return pa.int64()
    raise TraceError(
        f"column {name!r} has type {kind}, which no Chakra attribute can hold; "
        "use integers, floats, booleans, strings, bytes or lists of them"
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def members_that_hold(array: pa.Array) -> set[Member]:
    """The oneof members that can hold every value of a column without changing it."""
    storage = STORAGE_TYPES.index(array.type)
    values = array.flatten() if storage >= 5 else array
    if pa.types.is_integer(values.type):
        least, most = pc.min_max(values).as_py().values()
        return {
            member
            for member, (low, high) in _ranges(storage).items()
            if least is None or (low <= least and most <= high)
        }
    narrow = not pa.types.is_floating(values.type) or _is_single_precision(values)
    return {m for m in _ranges(storage) if narrow or not m.name.startswith("float_")}


@cache
def _ranges(storage: int) -> dict[Member, tuple[int, int]]:
    """The members that a storage type may be written as, and which whole numbers each of them holds."""
    alike = (INT, BOOL) if storage in (INT, BOOL) else (storage,)
    members = [m for m in Member if storage_of_member(m) in alike]
    kinds = [m.name.rpartition("_")[0] for m in members]
    return {
        m: (0, 1) if kind == "bool" else RANGES.get(kind, (0, 0))
        for m, kind in zip(members, kinds, strict=True)
    }


def _is_single_precision(values: pa.Array) -> bool:
    exact = values.drop_null().to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow = exact.astype(np.float32).astype(np.float64)
    return bool(np.array_equal(narrow, exact, equal_nan=True))


def cast(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """The values in another type, or a TraceError; lists hold no nulls, names are a dictionary."""
    try:
        if pa.types.is_dictionary(kind) and array.type != kind:
            array = array.cast(kind.value_type).dictionary_encode()
        converted = array if array.type == kind else array.cast(kind)
    except pa.ArrowException as error:
        raise TraceError(f"column {name!r} should be {kind}: {error}") from None
    if pa.types.is_list(kind) and converted.flatten().null_count:
        raise TraceError(f"column {name!r} has nulls inside its lists")
    return converted


def stores(kind: pa.DataType, member: int) -> bool:
    """Whether a column of this type can be written as this member, or read from it.

    Integers and booleans go into each other's columns, as writers differ about is_cpu_op.
    """
    member_type = STORAGE_TYPES[storage_of_member(member)]
    return member_type == kind or {member_type, kind} == {pa.int64(), pa.bool_()}


# --- from the core ------------------------------------------------------------------------------


def fields(data: Mapping[str, Any], rows: int) -> dict[str, pa.Array]:
    """The fields that every node has, and those of `data`."""
    return {
        name: field(name, data.get(name), rows)
        for name in FIELD_TYPES
        if name in data or name not in IO_COLUMNS
    }


def length(data: Mapping[str, Any]) -> int:
    """How many rows the columns have; a TraceError where they differ."""
    sizes = {name: len(values) for name, values in data.items() if values is not None}
    if len(set(sizes.values())) > 1:
        raise TraceError(f"columns differ in length: {sizes}; give one value per node in each")
    return next(iter(sizes.values()), 0)


def _array(name: str, values: Any, rows: int, kind: pa.DataType | None = None) -> pa.Array:
    """The values as one Arrow array of the right length; of this kind, if they are a Python list."""
    hint = kind if isinstance(values, (list, tuple)) else None
    try:
        array = (
            values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, hint)
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        requirement = f"be {kind}" if kind else "hold values of one kind"
        raise TraceError(f"column {name!r} should {requirement}: {error}") from None
    if isinstance(array, pa.ChunkedArray):
        array = single(array)
    if len(array) != rows:
        raise TraceError(f"column {name!r} has {len(array):,} values for {rows:,} nodes")
    return array


def field(name: str, values: Any, rows: int) -> pa.Array:
    """A field of the node in its own type, with its default where it is not given."""
    kind = FIELD_TYPES[name]
    if values is None and name == "id":
        return pa.array(np.arange(rows, dtype=np.uint64))
    if values is None:
        default = pa.scalar([] if name.endswith("_deps") else _DEFAULTS.get(name), kind)
        return pa.repeat(default, rows) if rows else pa.array([], kind)
    hint = pa.string() if name == "name" else kind
    array = cast(_array(name, values, rows, hint), kind, name)
    if array.null_count and name not in IO_COLUMNS:
        raise TraceError(f"column {name!r} has nulls; every node needs one")
    return array


def attribute(name: str, values: Any, rows: int) -> pa.Array:
    """An attribute in the type that the vocabulary gives it, or else in its own."""
    if attribute_name(name) == "":
        raise TraceError("an attribute has no name; give it one")
    array = _array(name, values, rows)
    entry = by_name().get(attribute_name(name) or name)
    if entry is None:
        return cast(array, storage_type(array.type, name), name)
    return cast(array, STORAGE_TYPES[storage_of_member(entry.member)], name)


def _buffer(array: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(array)


def arrow_array(
    storage: int, rows: int, nulls: int, valid: Any, buffers: list[NDArray[Any]]
) -> pa.Array:
    """One column of a decoded batch."""
    bitmap = None if valid is None else _buffer(valid)
    kind = STORAGE_TYPES[storage]
    if storage < 3:
        return pa.Array.from_buffers(kind, rows, [bitmap, _buffer(buffers[0])], nulls)
    if storage in (STRING, BINARY):
        return pa.Array.from_buffers(kind, rows, [bitmap, *map(_buffer, buffers)], nulls)
    count = int(buffers[0][-1])
    child = arrow_array(storage - 5, count, 0, None, buffers[1:])
    return pa.Array.from_buffers(kind, rows, [bitmap, _buffer(buffers[0])], nulls, children=[child])


def _id_lists(offsets: I32, ids: U64) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))


def names_array(offsets: I64, text: bytes) -> pa.Array:
    """The decoder's dictionary of names."""
    if offsets[-1] >= 2**31:
        raise TraceError("the distinct node names of this trace exceed 2 GiB; read it in pieces")
    narrow = offsets.astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, _buffer(narrow), pa.py_buffer(text)], 0
    )


def table_from_batch(batch: Mapping[str, Any], names: pa.Array) -> pa.Table:
    """A decoded batch as a table; `names` is the dictionary its name numbers refer to."""
    rows = batch["rows"]
    columns: dict[str, pa.Array] = {
        "id": pa.array(batch["id"]),
        "name": pa.DictionaryArray.from_arrays(pa.array(batch["name"]), names, safe=False),
        "type": pa.array(batch["type"]),
        "start_time_micros": pa.array(batch["start"]),
        "duration_micros": pa.array(batch["duration"]),
        "ctrl_deps": _id_lists(batch["ctrl_offsets"], batch["ctrl"]),
        "data_deps": _id_lists(batch["data_offsets"], batch["data"]),
    }
    for name, storage, nulls, valid, buffers in batch["columns"]:
        column = column_name(name[1:]) if name.startswith("@") else name
        columns[column] = arrow_array(storage, rows, nulls, valid, buffers)
    columns["_layout"] = pa.array(batch["layout"])
    return pa.table(columns)


# --- to the core --------------------------------------------------------------------------------


def _bytes_view(buffer: pa.Buffer | None) -> U8:
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.uint8)
    return np.frombuffer(buffer, np.uint8)


def _offsets(array: pa.Array) -> I32:
    if len(array) == 0:
        return np.zeros(1, np.int32)
    whole = np.frombuffer(array.buffers()[1], np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def _text_column(table: pa.Table, name: str) -> tuple[Any, ...] | None:
    """(offsets, text, bitmap, bit offset) of a string or binary column of one chunk."""
    if name not in table.column_names:
        return None
    array = single(table.column(name))
    valid = array.buffers()[0]
    bitmap = None if valid is None else np.frombuffer(valid, np.uint8)
    return _offsets(array), _bytes_view(array.buffers()[2]), bitmap, array.offset


def single(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, without a copy where it is one already."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _words(array: pa.Array, kind: np.dtype[Any]) -> I64:
    """The values as 64-bit words; a null is whatever is in memory at its place."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(0, np.int64)
    whole = np.frombuffer(data, kind)
    return whole[array.offset : array.offset + len(array)].view(np.int64)


def _flags(array: pa.Array) -> U8:
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(0, np.uint8)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return np.ascontiguousarray(bits[array.offset : array.offset + len(array)])


def _value_buffers(array: pa.Array, storage: int) -> list[NDArray[Any]]:
    if storage == INT:
        return [_words(array, np.dtype(np.int64))]
    if storage == DOUBLE:
        return [_words(array, np.dtype(np.float64))]
    if storage == BOOL:
        return [_flags(array)]
    if storage in (STRING, BINARY):
        return [_offsets(array), _bytes_view(array.buffers()[2])]
    offsets = _offsets(array)
    # The child starts where this slice's first list does, so that its own arrays start at 0.
    first, last = int(offsets[0]), int(offsets[-1])
    child = array.values.slice(first, last - first)
    return [offsets - np.int32(first), *_value_buffers(child, storage - 5)]


def _encoder_column(table: pa.Table, attribute: str) -> tuple[Any, ...]:
    array = single(table.column(column_name(attribute)))
    kind = storage_type(array.type, attribute)
    if array.type != kind:
        array = array.cast(kind)
    storage = STORAGE_TYPES.index(kind)
    return (attribute, storage, *_value_buffers(array, storage))


def _fixed(table: pa.Table, name: str) -> NDArray[Any]:
    return np.ascontiguousarray(single(table.column(name)).to_numpy(zero_copy_only=False))


def encoder_input(table: pa.Table, layouts: Layouts) -> dict[str, Any]:
    """What the core's encoder takes, for one chunk of a table with all its private columns."""
    layouts, rows = layouts.used(_fixed(table, "_layout"))
    attributes = layouts.names()
    name = single(table.column("name"))
    ctrl, data = single(table.column("ctrl_deps")), single(table.column("data_deps"))
    return {
        "rows": table.num_rows,
        "id": _fixed(table, "id"),
        "name": np.ascontiguousarray(name.indices.to_numpy(zero_copy_only=False)),
        "names": _text_column(pa.table({"n": name.dictionary}), "n"),
        "name_count": len(name.dictionary),
        "type": _fixed(table, "type"),
        "start": _fixed(table, "start_time_micros"),
        "duration": _fixed(table, "duration_micros"),
        "layout": rows,
        "ctrl_offsets": _offsets(ctrl),
        "ctrl": _ids(ctrl),
        "data_offsets": _offsets(data),
        "data": _ids(data),
        "io": [
            _text_column(table, c) for c in (*IO_COLUMNS, "_inputs_unknown", "_outputs_unknown")
        ],
        "raw": _text_column(table, "_raw"),
        "unknown": _text_column(table, "_unknown"),
        "columns": [_encoder_column(table, a) for a in attributes],
        "layouts": layouts.to_core({a: i for i, a in enumerate(attributes)}),
    }


def _ids(lists: pa.Array) -> U64:
    ids = lists.values.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(ids) if len(ids) else np.zeros(1, np.uint64)
