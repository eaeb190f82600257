"""Protobuf's wire form in Python: messages written and read field by field.

Bulk work is the core's; this is for a few attributes at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.trace.model.schema import Member

_PACKED: dict[str, str] = {
    "double": "<d",
    "float": "<f",
    "fixed32": "<I",
    "fixed64": "<Q",
    "sfixed32": "<i",
    "sfixed64": "<q",
}
_SIGNED32, _SIGNED64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_UNSIGNED32, _UNSIGNED64 = (0, 2**32 - 1), (0, 2**64 - 1)
RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _SIGNED32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _SIGNED64),
    **dict.fromkeys(("uint32", "fixed32"), _UNSIGNED32),
    **dict.fromkeys(("uint64", "fixed64"), _UNSIGNED64),
}

_FIXED = {1: 8, 5: 4}
"""Bytes of the wire types whose fields have a fixed size."""
_LONGEST_VARINT = 10
"""Bytes: 64 bits, seven in each byte."""
_ONE_BYTE = [bytes((i,)) for i in range(128)]


def varint(value: int) -> bytes:
    """A non-negative integer below 2^64."""
    if not 0 <= value < 2**64:
        raise ValueError(f"{value} does not fit an unsigned 64-bit field")
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at this place, and where it ends."""
    value = 0
    for i, byte in enumerate(data[position : position + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & (2**64 - 1), position + i + 1
    raise FormatError("a number is cut off", offset=position)


def frames(data: bytes) -> Iterator[bytes]:
    """Messages that follow each other, each with its length before it."""
    at = 0
    while at < len(data):
        size, at = read_varint(data, at)
        yield data[at : at + size]
        at += size


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message with their numbers: varints as integers, all else as bytes.

    Every length is checked, since the bytes come from a file.
    """
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if not number:
            raise FormatError(
                "a field with the number 0; this is not a protobuf message", offset=at
            )
        if kind == 0:
            value, at = read_varint(data, at)
            yield number, value
            continue
        size, at = read_varint(data, at) if kind == 2 else (_FIXED.get(kind, -1), at)
        if size < 0 or at + size > len(data):
            raise FormatError("a field runs past its message", offset=at)
        yield number, data[at : at + size]
        at += size


def field_bytes(field: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def field_varint(field: int, value: int) -> bytes:
    """A varint field; zero is not written, as proto3 has it."""
    return varint(field << 3) + varint(value) if value else b""


def frame(message: bytes) -> bytes:
    """A message with its length before it."""
    return varint(len(message)) + message


def attribute(name: str, member: Member, value: Any) -> bytes:
    """An AttributeProto."""
    kind, _, shape = member.name.rpartition("_")
    if shape == "val":
        body = varint(member << 3 | _wire_type(kind)) + _element(kind, value, name)
    else:
        body = field_bytes(member, _list(kind, value, name))
    return field_bytes(1, name.encode()) + body


def _wire_type(kind: str) -> int:
    if kind in ("double", "fixed64", "sfixed64"):
        return 1
    if kind in ("float", "fixed32", "sfixed32"):
        return 5
    return 2 if kind in ("string", "bytes") else 0


def _element(kind: str, value: Any, name: str) -> bytes:
    if kind in ("string", "bytes"):
        data = value.encode() if isinstance(value, str) else bytes(value)
        return varint(len(data)) + data
    if kind == "bool":
        return b"\x01" if value else b"\x00"
    if kind in ("double", "float"):
        return struct.pack(_PACKED[kind], float(value))
    return _integer(kind, int(value), name)


def _integer(kind: str, value: int, name: str) -> bytes:
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise FormatError(f"attribute {name!r}: {value} does not fit {kind}")
    if kind in _PACKED:
        return struct.pack(_PACKED[kind], value)
    if kind.startswith("sint"):
        value = value << 1 ^ value >> 63
    return varint(value & (2**64 - 1))


def _list(kind: str, values: Iterable[Any], name: str) -> bytes:
    if kind in ("string", "bytes"):
        return b"".join(b"\x0a" + _element(kind, v, name) for v in values)
    packed = b"".join(_element(kind, v, name) for v in values)
    return field_bytes(1, packed) if packed else b""
