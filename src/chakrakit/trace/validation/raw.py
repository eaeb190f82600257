"""Attributes that a trace keeps as bytes: which they are, and why they are not in a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chakrakit.errors import FormatError
from chakrakit.trace.model import Attribute, Member, Trace, by_name, columns, wire

_NAME = 1


@dataclass(frozen=True)
class RawAttribute:
    """An attribute of the vocabulary that could not be read, and the finding it makes."""

    row: int
    name: str
    code: str
    why: str


def raw_attributes(piece: Trace) -> Iterator[RawAttribute]:
    """The known attributes of a piece that are kept raw, row by row."""
    if "_raw" not in piece.table.column_names:
        return
    column = piece.table.column("_raw")
    rows = np.flatnonzero(column.is_valid().to_numpy())
    readable = {n: piece.has(columns.column_name(n)) for n in by_name()}
    for row, packed in zip(rows.tolist(), column.drop_null().to_pylist(), strict=True):
        seen: set[str] = set()
        for data in wire.frames(packed):
            attribute = by_name().get(_name(data))
            if attribute is None:
                continue
            twice = attribute.name in seen or readable[attribute.name][row]
            seen.add(attribute.name)
            code, why = ("attribute-twice", "is there twice") if twice else _reason(data, attribute)
            yield RawAttribute(row, attribute.name, code, why)


def _name(data: bytes) -> str:
    """The attribute's name."""
    if data[:1] == b"\x0a" and len(data) > 1 and data[1] < 0x80:  # as every writer puts it
        return data[2 : 2 + data[1]].decode("utf-8", "replace")
    for field, value in _fields(data):
        if field == _NAME and isinstance(value, bytes):
            return value.decode("utf-8", "replace")
    return ""


def _reason(data: bytes, attribute: Attribute) -> tuple[str, str]:
    fields = dict(_fields(data))
    members = [f for f in fields if f in set(Member)]
    if not members:
        return "attribute-empty", f"has no value; it should be {attribute.member.name}"
    member = Member(members[-1])
    wanted, found = (columns.storage_of_member(m) for m in (attribute.member, member))
    if {wanted, found} <= {columns.INT, columns.BOOL} or wanted == found:
        value = fields[member]
        if wanted == columns.BOOL and value not in (0, 1):
            return "attribute-range", f"is {value!r}; it should be true or false"
        if wanted == columns.INT and isinstance(value, int) and value >= 2**63:
            return (
                "attribute-range",
                f"is {value}, as if a negative number had been written unsigned",
            )
        if set(fields) - {_NAME, member}:
            return "attribute-raw", "carries a doc string or unknown fields, so it is not read"
        return "attribute-type", "holds what cannot be read, such as text that is not UTF-8"
    return "attribute-type", f"is a {member.name}; it should be {attribute.member.name}"


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    try:
        yield from wire.fields(data)
    except FormatError:
        return  # a group, which the decoder passes over and nothing in the schema has
