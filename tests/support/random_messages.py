"""Random messages of the schema, and other encodings of them that a reader must understand."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from support.oracle import message, read_varint, varint

SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
MEMBERS = {
    f"{s}_{shape}": 3 + 2 * i + (shape == "list")
    for i, s in enumerate(SCALARS)
    for shape in ("val", "list")
}
NAMES = (
    "is_cpu_op",
    "num_ops",
    "comm_size",
    "pg_name",
    "stream",
    "op_schema",
    "edge_kinds",
    "inputs",
    "id",
    "name",
    "inputs_values",
    "_x",
    "_layout",
    "attr:y",
    "attr:",
    "",
    "ünïcode",
    "a",
    "b",
)
_BITS = {"double": 64, "float": 32}
_REALS = (0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324, 1e-45, 3e38, 1 / 3)
_TEXTS = ("", "x", "aten::mm", "é", "日本", "\0", '"\\\n\t\x1f', "🎲" * 5, "y" * 300)


def _number(rng: Random, kind: str) -> Any:
    if kind == "bool":
        return rng.random() < 0.5
    if kind in _BITS:
        if rng.random() < 0.2:  # any bits at all, NaN payloads among them
            width = _BITS[kind] // 8
            return struct.unpack("<d" if width == 8 else "<f", rng.randbytes(width))[0]
        value = rng.choice(_REALS)
        return struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else value
    bits = 32 if kind.endswith("32") else 64
    low, high = (0, 2**bits) if kind[0] in "uf" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    edge = rng.choice((low, high - 1, 0, 1, min(high - 1, 2 ** rng.randrange(bits))))
    return edge if rng.random() < 0.6 else rng.randrange(low, high)


def value(rng: Random, kind: str) -> Any:
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind == "bytes":
        return rng.randbytes(rng.choice((0, 1, 3, 20)))
    return _number(rng, kind)


def set_value(rng: Random, attribute: Any, member: str) -> None:
    kind, shape = member.rsplit("_", 1)
    if shape == "val":
        setattr(attribute, member, value(rng, kind))
        return
    found = getattr(attribute, member)
    found.SetInParent()
    found.values.extend(value(rng, kind) for _ in range(rng.choice((0, 0, 1, 2, 9))))


def attribute(rng: Random, into: Any, names: tuple[str, ...] = NAMES) -> None:
    into.SetInParent()
    into.name = rng.choice(names)
    if rng.random() < 0.1:
        into.doc_string = rng.choice(_TEXTS)
    if rng.random() > 0.05:
        set_value(rng, into, rng.choice(list(MEMBERS)))


def _io(rng: Random, into: Any) -> None:
    into.SetInParent()  # there, if empty
    for field in ("values", "shapes", "types"):
        setattr(into, field, rng.choice(_TEXTS))


def node(rng: Random) -> Any:
    found = message("Node")()
    if rng.random() < 0.05:
        return found
    found.id = _number(rng, "uint64")
    found.name = rng.choice(_TEXTS)
    found.type = rng.choice((0, 1, 4, 5, 6, 7, 8, 99, 2**31 - 1, -1, -(2**31)))
    for field in ("ctrl_deps", "data_deps"):
        getattr(found, field).extend(
            _number(rng, "uint64") for _ in range(rng.choice((0, 0, 1, 5)))
        )
    found.start_time_micros = _number(rng, "uint64")
    found.duration_micros = _number(rng, "uint64")
    for side in ("inputs", "outputs"):
        if rng.random() < 0.5:
            _io(rng, getattr(found, side))
    for _ in range(rng.choice((0, 1, 3, 8))):
        attribute(rng, found.attr.add())
    return found


def metadata(rng: Random) -> Any:
    found = message("GlobalMetadata")()
    found.version = rng.choice(("", "0.0.4", "é"))
    for _ in range(rng.choice((0, 0, 2))):
        attribute(rng, found.attr.add())
    return found


# --- the same message in other bytes ------------------------------------------------------------

Field = tuple[int, int, Any]  # number, wire type, value (an int, or bytes)
_LISTS = {
    number: {1: "packed"}
    for name, number in MEMBERS.items()
    if name.endswith("_list") and not name.startswith(("string", "bytes"))
}
_TEXT_LISTS: dict[int, Any] = {30: {}, 32: {}}
ATTRIBUTE: dict[int, Any] = {**_LISTS, **_TEXT_LISTS}
IO: dict[int, Any] = {}
NODE: dict[int, Any] = {4: "packed", 5: "packed", 8: IO, 9: IO, 10: ATTRIBUTE}
METADATA: dict[int, Any] = {2: ATTRIBUTE}
_SINGULAR_SUBMESSAGES = (8, 9)


def fields(data: bytes) -> list[Field]:
    """The fields of a canonically encoded message."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            content, at = read_varint(data, at)
            found.append((tag >> 3, 0, content))
            continue
        size, at = read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        found.append((tag >> 3, kind, data[at : at + size]))
        at += size
    return found


def long_varint(rng: Random, number: int, limit: int = 10) -> bytes:
    """Sometimes with more bytes than needed; the runtime takes tags and lengths of up to five."""
    data = varint(number)
    if rng.random() < 0.8 or len(data) >= limit:
        return data
    more = rng.randrange(1, limit + 1 - len(data))
    return bytes([*data[:-1], data[-1] | 0x80, *[0x80] * (more - 1), 0])


def unknown_field(rng: Random, taken: int) -> bytes:
    """A field the schema does not have, of any wire type; groups hold others."""
    number = rng.choice((taken + 1, taken + 7, 1000, 2**29 - 1))
    kind = rng.choice((0, 1, 2, 3, 5))
    if kind == 3:
        inner = b"".join(unknown_field(rng, 0) for _ in range(rng.randrange(3)))
        return varint(number << 3 | 3) + inner + varint(number << 3 | 4)
    body = {
        0: lambda: varint(rng.getrandbits(64)),
        1: lambda: rng.randbytes(8),
        2: lambda: b"\x03" + rng.randbytes(3),
        5: lambda: rng.randbytes(4),
    }[kind]()
    return varint(number << 3 | kind) + body


def _packed_elements(content: bytes, member: int) -> list[bytes]:
    width = {3: 8, 5: 4, 19: 4, 21: 8, 23: 4, 25: 8}.get(member - 1)
    if width:
        return [content[i : i + width] for i in range(0, len(content), width)]
    found, at = [], 0
    while at < len(content):
        end = read_varint(content, at)[1]
        found.append(content[at:end])
        at = end
    return found


def _packed(rng: Random, number: int, content: bytes, member: int) -> bytes:
    """A packed field as several: packed, or one element each."""
    wire = {3: 1, 5: 5, 19: 5, 21: 1, 23: 5, 25: 1}.get(member - 1, 0)
    out = b""
    for element in _packed_elements(content, member):
        alone = rng.random() < 0.5
        head = (
            varint(number << 3 | wire) if alone else varint(number << 3 | 2) + varint(len(element))
        )
        out += head + element
    return out


def noisy(rng: Random, data: bytes, schema: dict[int, Any], member: int = 0) -> bytes:
    """Another encoding: some messages equal to the first, all valid."""
    parts: list[bytes] = []
    for number, kind, content in fields(data):
        how = schema.get(number)
        if how == "packed" and rng.random() < 0.5:
            parts.append(_packed(rng, number, content, member))
            continue
        head = long_varint(rng, number << 3 | kind, limit=5)
        if kind == 0:
            parts.append(head + long_varint(rng, content))
        elif kind == 2:
            body = noisy(rng, content, how, number) if isinstance(how, dict) else content
            parts.append(head + long_varint(rng, len(body), limit=5) + body)
        else:
            parts.append(head + content)
        if rng.random() < 0.1:  # said twice: the last one counts, submessages merge
            parts.append(parts[-1])
    taken = (
        32
        if schema is ATTRIBUTE
        else 4
        if schema is IO
        else 10
        if schema in (NODE, METADATA)
        else 1
    )
    if schema is IO and rng.random() < 0.5:
        parts.append(b"\x22" + rng.choice((b"\x00", b"\x06[[1,]]", b"\x02\xff\xfe")))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        parts.append(unknown_field(rng, taken))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return b"".join(parts)
