"""Writes single messages of the schema, for what comes as Python objects: metadata and JSON.

Bulk encoding is the core's work; this is for a few attributes at a time.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.trace.schema import Member, NodeType

_PACKED: dict[str, str] = {
    "double": "<d", "float": "<f",
    "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q",
}  # fmt: skip
_SIGNED32, _SIGNED64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_UNSIGNED32, _UNSIGNED64 = (0, 2**32 - 1), (0, 2**64 - 1)
RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _SIGNED32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _SIGNED64),
    **dict.fromkeys(("uint32", "fixed32"), _UNSIGNED32),
    **dict.fromkeys(("uint64", "fixed64"), _UNSIGNED64),
}


def varint(value: int) -> bytes:
    """A non-negative integer below 2^64."""
    if not 0 <= value < 2**64:
        raise ValueError(f"{value} does not fit an unsigned 64-bit field")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at this place, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


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


def attribute_from_json(obj: Mapping[str, Any]) -> bytes:
    """An AttributeProto from its JSON object: snake_case as ours, or camelCase as protobuf's."""
    if "raw" in obj:
        return _unbase64(obj["raw"])
    name, doc, value = "", b"", b""
    for key, content in obj.items():
        if key == "name":
            name = _text(content)
        elif key in ("doc_string", "docString"):
            doc = field_bytes(2, _text(content).encode())
        else:
            member = _member(key)
            content = content.get("values", []) if isinstance(content, dict) else content
            value = attribute("", member, content)[2:]
    return _optional_text(1, name) + doc + value


def node_from_json(obj: Mapping[str, Any]) -> bytes:
    """A Node from its JSON object, ours or protobuf's."""
    try:
        out = field_varint(1, int(obj.get("id", 0)))
        out += _optional_text(2, obj.get("name"))
        out += field_varint(3, _node_type(obj.get("type", 0)) & (2**64 - 1))
        out += _ids(4, _either(obj, "ctrl_deps", "ctrlDeps"))
        out += _ids(5, _either(obj, "data_deps", "dataDeps"))
        out += field_varint(6, int(_either(obj, "start_time_micros", "startTimeMicros") or 0))
        out += field_varint(7, int(_either(obj, "duration_micros", "durationMicros") or 0))
        out += _io(8, obj.get("inputs")) + _io(9, obj.get("outputs"))
        for a in obj.get("attr", []):
            out += field_bytes(10, attribute_from_json(a))
        return out + _unbase64(obj.get("unknown", ""))
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"node {obj.get('id')}: {error}") from None


def metadata_from_json(obj: Mapping[str, Any]) -> bytes:
    """A GlobalMetadata from its JSON object."""
    out = _optional_text(1, obj.get("version"))
    for a in obj.get("attr", []):
        out += field_bytes(2, attribute_from_json(a))
    return out + _unbase64(obj.get("unknown", ""))


def _wire_type(kind: str) -> int:
    if kind in ("double", "fixed64", "sfixed64"):
        return 1
    if kind in ("float", "fixed32", "sfixed32"):
        return 5
    return 2 if kind in ("string", "bytes") else 0


def _element(kind: str, value: Any, name: str) -> bytes:
    if kind == "string":
        data = _text(value).encode()
        return varint(len(data)) + data
    if kind == "bytes":
        data = value if isinstance(value, bytes) else _unbase64(value)
        return varint(len(data)) + data
    if kind == "bool":
        return b"\x01" if value in (True, 1, "true") else b"\x00"
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


def _member(key: str) -> Member:
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in key)
    try:
        return Member[snake]
    except KeyError:
        raise FormatError(f"{key!r} is not a kind of attribute value") from None


def _node_type(value: Any) -> int:
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise FormatError(f"{value} does not fit a node type")
        return value
    try:
        return NodeType[value]
    except KeyError:
        raise FormatError(f"{value!r} is not a node type") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{value!r} should be a string")
    return value


def _optional_text(field: int, value: Any) -> bytes:
    return field_bytes(field, _text(value).encode()) if value else b""


def _ids(field: int, values: Any) -> bytes:
    packed = b"".join(varint(int(v)) for v in values or [])
    return field_bytes(field, packed) if packed else b""


def _io(field: int, obj: Mapping[str, Any] | None) -> bytes:
    if obj is None:
        return b""
    names = ("values", "shapes", "types", "strides")
    body = b"".join(_optional_text(i, obj.get(n)) for i, n in enumerate(names, 1))
    return field_bytes(field, body + _unbase64(obj.get("unknown", "")))


def _either(obj: Mapping[str, Any], ours: str, protobufs: str) -> Any:
    return obj.get(ours, obj.get(protobufs))


def _unbase64(text: Any) -> bytes:
    try:
        return base64.b64decode(_text(text), validate=True)
    except ValueError:
        raise FormatError(f"{str(text)[:40]!r} is not base64") from None
