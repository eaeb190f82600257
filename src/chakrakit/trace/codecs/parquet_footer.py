"""Which columns of a Parquet file are null throughout, by its footer.

Arrow ends the process over the statistics of a damaged footer, so they are read here. A file ends with its
footer, the footer's length in four bytes (little-endian) and `PAR1`. The footer is a struct in Thrift's
compact protocol: fields, then a zero byte. A field begins with a byte, whose upper half is how far the
field's number is from the last one's (0: the number follows) and whose lower half is its kind. Numbers are
varints, signed ones zigzag; text has its length before it; a list begins with a byte, whose upper half is
its length (15: the length follows) and whose lower half is the kind of its elements.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_BOOLEANS, _NUMBERS, _TEXT, _LISTS, _STRUCT = (1, 2), (4, 5, 6), 8, (9, 10), 12
_FIXED = {1: 1, 2: 1, 3: 1, 7: 8}
"""Bytes of the other kinds: booleans in a list, a byte, a double. Parquet has no maps."""
_DEEPEST = 16
"""Structs and lists within each other; Parquet's own are fewer than ten."""
_LARGEST = 8 << 20
"""Bytes of a footer that are looked at: half a second of a trace of 30 million nodes, two of the worst.

With a larger one, all columns are read."""
_WIDEST = 1 << 16
"""Columns of a row group, a hundred times those of a trace with many attributes."""
_NAMES = "BOOLEAN INT32 INT64 INT96 FLOAT DOUBLE BYTE_ARRAY FIXED_LEN_BYTE_ARRAY"
_TYPES = dict(enumerate(_NAMES.split()))

_Fields = Mapping[int, Any]
"""The fields of a struct that matter, by number, each with those of the structs in it that matter."""
_ROW_GROUPS = 4  # of the file
_COLUMNS, _ROWS = 1, 3  # of a row group
_META_DATA = 3  # of a column's chunk
_TYPE, _STATISTICS = 1, 12  # of a chunk's metadata
_NULLS = 3  # of its statistics
_ROW_GROUP: _Fields = {_COLUMNS: {_META_DATA: {_TYPE: {}, _STATISTICS: {_NULLS: {}}}}, _ROWS: {}}


class FooterColumn(NamedTuple):
    """A column of a file's schema: its name if it is not nested, and Arrow's name of its physical type."""

    name: str | None
    type: str


def null_columns(source: Any, columns: Sequence[FooterColumn]) -> set[str]:
    """Those of all a file's columns that are null in every row; none of them if the footer is damaged."""
    null = {column.name for column in columns if column.name is not None}
    try:
        for group in _row_groups(_footer(source)):
            null &= _null_in(group, columns)
            if not null:
                break
    except (ValueError, LookupError, TypeError, AttributeError):
        return set()
    return null


def _footer(source: Any) -> bytes:
    end = source.seek(0, io.SEEK_END)
    source.seek(max(0, end - 8))
    tail = source.read(8)
    size = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or size > min(end - 8, _LARGEST):
        raise ValueError("no footer to look at")
    source.seek(end - 8 - size)
    return bytes(source.read(size))


def _null_in(group: dict[int, Any], columns: Sequence[FooterColumn]) -> set[str]:
    chunks, rows = group[_COLUMNS], group[_ROWS]
    pairs = zip(chunks, columns, strict=True)
    return {c.name for chunk, c in pairs if c.name is not None and _is_null(chunk, c, rows)}


def _is_null(chunk: dict[int, Any], column: FooterColumn, rows: int) -> bool:
    """Whether a chunk has nulls alone, and is what the schema says; if not, reading it tells."""
    said = chunk[_META_DATA]
    return said.get(_STATISTICS, {}).get(_NULLS) == rows and _TYPES[said[_TYPE]] == column.type


def _row_groups(data: bytes) -> Iterator[dict[int, Any]]:
    """One by one: a damaged footer can have a million that say nothing."""
    number, kind, at = _header(data, 0, 0)
    while number != _ROW_GROUPS:
        number, kind, at = _header(data, _after(data, at, kind, 1), number)
    size, element, at = _list(data, at)
    if kind not in _LISTS or element != _STRUCT:
        raise ValueError("no row groups")
    for _ in range(size):
        group, at = _struct(data, at, _ROW_GROUP, 1)
        yield group


def _struct(data: bytes, at: int, wanted: _Fields, depth: int) -> tuple[dict[int, Any], int]:
    """The fields that are wanted, and where the struct ends.

    Thousands of fields are passed here for each file, so the frequent ones are passed without a call.
    """
    values: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        if head < 16:
            number, at = _signed(data, at + 1)
        else:
            number, at = number + (head >> 4), at + 1
        kind = head & 15
        if number in wanted:
            values[number], at = _value(data, at, kind, wanted[number], depth + 1)
        elif kind in _NUMBERS:
            while data[at] > 127:
                at += 1
            at += 1
        elif kind not in _BOOLEANS:  # a field's kind is its truth; nothing follows
            at = _after(data, at, kind, depth + 1)
    return values, at + 1


def _value(data: bytes, at: int, kind: int, wanted: _Fields, depth: int) -> tuple[Any, int]:
    """A number, a struct or a list of them, and where it ends."""
    if kind in _NUMBERS:
        return _signed(data, at)
    if depth > _DEEPEST or kind not in (*_LISTS, _STRUCT):
        raise ValueError("not what it should be")
    if kind == _STRUCT:
        return _struct(data, at, wanted, depth)
    size, element, at = _list(data, at)
    if size > _WIDEST:
        raise ValueError("too many columns")
    values = []
    for _ in range(size):
        value, at = _value(data, at, element, wanted, depth + 1)
        values.append(value)
    return values, at


def _after(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where a value ends that nobody wants."""
    if kind == _STRUCT and depth <= _DEEPEST:
        return _struct(data, at, {}, depth)[1]
    if kind in _LISTS and depth <= _DEEPEST:
        return _after_list(data, at, depth)
    if kind == _TEXT:
        size, at = _varint(data, at)
        return at + size
    if kind in _NUMBERS:
        return _varint(data, at)[1]
    return at + _FIXED[kind]


def _after_list(data: bytes, at: int, depth: int) -> int:
    size, element, at = _list(data, at)
    if element in _NUMBERS:
        for _ in range(size):
            while data[at] > 127:
                at += 1
            at += 1
        return at
    for _ in range(size):
        at = _after(data, at, element, depth + 1)
    return at


def _header(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """A field's number and kind, and where its value begins."""
    head = data[at]
    if not head:
        raise ValueError("no row groups")
    if head > 15:
        return last + (head >> 4), head & 15, at + 1
    number, at = _signed(data, at + 1)
    return number, head, at


def _list(data: bytes, at: int) -> tuple[int, int, int]:
    """A list's length and kind, and where its first element begins; none is shorter than a byte."""
    head = data[at]
    size, at = (head >> 4, at + 1) if head < 0xF0 else _varint(data, at + 1)
    if size > len(data) - at:
        raise ValueError("longer than the footer")
    return size, head & 15, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    number, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = data[at]
        number |= (byte & 127) << shift
        shift += 7
        if shift > 70:  # ten bytes are 64 bits
            raise ValueError("too long a number")
    return number, at + 1


def _signed(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at
