"""Nodes and headers as JSON objects, turned into protobuf messages.

Takes chakrakit's form (snake_case, numbers as numbers) and protobuf's (camelCase, 64-bit integers as strings,
lists as `{"values": […]}`). Nothing is guessed: a key that is not known, a number that does not fit or
a value of another type is an error that names it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chakrakit.errors import FormatError
from chakrakit.trace.model import Member, NodeType, wire

_NODE_KEYS = frozenset(
    {
        "id",
        "name",
        "type",
        "ctrl_deps",
        "data_deps",
        "start_time_micros",
        "duration_micros",
        "inputs",
        "outputs",
        "attr",
        "unknown",
    }
)
_IO_KEYS = ("values", "shapes", "types", "strides")
_LARGEST_UINT64 = 2**64 - 1  # ids and times are uint64 in the schema


def node(obj: Mapping[str, Any]) -> bytes:
    """The bytes of a Node message."""
    fields = _fields(obj, _NODE_KEYS, "a node")
    try:
        return b"".join(_node_parts(fields))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FormatError(str(error)) from None


def metadata(obj: Mapping[str, Any]) -> bytes:
    """The bytes of a GlobalMetadata message."""
    fields = _fields(obj, {"version", "attr", "unknown"}, "the header")
    try:
        parts = [_text_field(1, fields.get("version", ""))]
        parts += [wire.field_bytes(2, attribute(a)) for a in _list(fields.get("attr", []), "attr")]
        return b"".join(parts) + _base64(fields.get("unknown", ""))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FormatError(str(error)) from None


def attribute(obj: Any) -> bytes:
    """The bytes of an AttributeProto message."""
    fields = {_snake(k): v for k, v in _object(obj, "an attribute").items()}
    name = _text(fields.pop("name", ""), "an attribute's name")
    if "raw" in fields:
        return _base64(fields["raw"])
    out = wire.field_bytes(1, name.encode()) if name else b""
    if "doc_string" in fields:
        out += wire.field_bytes(2, _text(fields.pop("doc_string"), "doc_string").encode())
    if len(fields) > 1:
        raise ValueError(f"attribute {name!r} has several values: {', '.join(fields)}")
    for key, value in fields.items():
        out += _value(name, key, value)
    return out


def _value(name: str, key: str, value: Any) -> bytes:
    if key not in Member.__members__:
        raise ValueError(f"attribute {name!r}: {key!r} is not a kind of value")
    kind, _, shape = key.rpartition("_")
    if shape == "list":
        value = value.get("values", []) if isinstance(value, Mapping) else value
        values = [_scalar(kind, v, name) for v in _list(value, f"attribute {name!r}")]
        return wire.attribute("", Member[key], values)[2:]
    return wire.attribute("", Member[key], _scalar(kind, value, name))[2:]


def _scalar(kind: str, value: Any, name: str) -> Any:
    """The value as Python has it, in range."""
    subject = f"attribute {name!r}"
    if kind == "string":
        return _text(value, subject)
    if kind == "bytes":
        return _base64(value)
    if kind == "bool":
        return _boolean(value, subject)
    if kind in ("double", "float"):
        return _real(value, subject)
    low, high = wire.RANGES[kind]
    return _integer(value, low, high, subject)


def _node_parts(fields: Mapping[str, Any]) -> list[bytes]:
    def number(field: int, key: str) -> bytes:
        return wire.field_varint(field, _integer(fields.get(key, 0), 0, _LARGEST_UINT64, key))

    return [
        number(1, "id"),
        _text_field(2, fields.get("name", "")),
        wire.field_varint(3, _node_type(fields.get("type", 0)) & _LARGEST_UINT64),
        _ids(4, fields.get("ctrl_deps", []), "ctrl_deps"),
        _ids(5, fields.get("data_deps", []), "data_deps"),
        number(6, "start_time_micros"),
        number(7, "duration_micros"),
        _io(8, fields.get("inputs")),
        _io(9, fields.get("outputs")),
        *(wire.field_bytes(10, attribute(a)) for a in _list(fields.get("attr", []), "attr")),
        _base64(fields.get("unknown", "")),
    ]


def _fields(obj: Any, allowed_keys: frozenset[str] | set[str], subject: str) -> dict[str, Any]:
    fields = {_snake(k): v for k, v in _object(obj, subject).items()}
    for key in fields.keys() - allowed_keys:
        raise FormatError(f"{key!r} has no place in {subject} of a Chakra trace")
    return fields


@lru_cache(1024)
def _snake(key: str) -> str:
    return re.sub("[A-Z]", lambda m: "_" + m[0].lower(), key)


def _object(value: Any, subject: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FormatError(f"{subject} should be an object, not {_abbreviated(value)}")
    return value


def _list(value: Any, subject: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{subject} should be a list, not {_abbreviated(value)}")
    return value


def _text(value: Any, subject: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{subject} should be a string, not {_abbreviated(value)}")
    return value


def _boolean(value: Any, subject: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{subject} should be true or false, not {_abbreviated(value)}")
    return value


def _real(value: Any, subject: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{subject} should be a number, not {_abbreviated(value)}")
    return float(value)


def _integer(value: Any, low: int, high: int, subject: str) -> int:
    """An integer, written as a number or (as protobuf does) as a string."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{subject} should be an integer, not {_abbreviated(value)}")
    if not low <= value <= high:
        raise ValueError(f"{subject} is {_abbreviated(value)}, not in {low}..{high}")
    return value


def _node_type(value: Any) -> int:
    if isinstance(value, str) and value in NodeType.__members__:
        return NodeType[value]
    return _integer(value, -(2**31), 2**31 - 1, "type")


def _text_field(field: int, value: Any) -> bytes:
    text = _text(value, "a name or version")
    return wire.field_bytes(field, text.encode()) if text else b""


def _ids(field: int, values: Any, subject: str) -> bytes:
    ids = (_integer(v, 0, _LARGEST_UINT64, subject) for v in _list(values, subject))
    packed = b"".join(map(wire.varint, ids))
    return wire.field_bytes(field, packed) if packed else b""


def _io(field: int, obj: Any) -> bytes:
    if obj is None:
        return b""
    fields = _fields(obj, {*_IO_KEYS, "unknown"}, "inputs or outputs")
    body = b"".join(_text_field(i, fields.get(key, "")) for i, key in enumerate(_IO_KEYS, 1))
    return wire.field_bytes(field, body + _base64(fields.get("unknown", "")))


def _base64(text: Any) -> bytes:
    try:
        return base64.b64decode(_text(text, "bytes"), validate=True)
    except ValueError:
        raise ValueError(f"{_abbreviated(text)} is not base64") from None


def _abbreviated(value: Any) -> str:
    """The start of a value: it may be a megabyte long."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 2**80 else "a huge number"
    return text if len(text) <= 40 else text[:40] + "…"
