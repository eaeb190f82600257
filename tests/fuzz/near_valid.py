"""Files that stay what they were: framing, messages and tables are whole, and what they say becomes doubtful.

Most bytes that change make a file no reader takes. These changes keep to the format, so that what comes after
reading is tried: validation, conversion, and every command's own idea of what a trace may say.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import yaml

from fuzz.hostile import REAL, WHOLE, mutated_bytes, places
from fuzz.mutation import Mutate, mutate_parquet, mutate_protobuf, mutate_yaml, wire_fields
from support.oracle import bodies_of, file_of, varint

Field = tuple[int, int, int, int | bytes]
_ID, _NAME, _TYPE, _CTRL, _DATA, _START, _DURATION, _ATTR = 1, 2, 3, 4, 5, 6, 7, 10
"""Fields of a node in the schema."""
_ODD = (0, 1, 2, 3, 7, 255, 1 << 31, 1 << 53, 1 << 61, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def mutate_et(rng: Random, data: bytes) -> bytes:
    """A file of whole messages in which nodes are doubled, moved, joined otherwise or say other things."""
    if rng.random() < 0.15:
        return mutate_protobuf(rng, data)
    messages = list(bodies_of(data))
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_WAYS)(rng, messages)
    return file_of(messages)


def _node(rng: Random, messages: list[bytes]) -> int:
    return rng.randrange(1, len(messages)) if len(messages) > 1 else 0


def _double(rng: Random, messages: list[bytes]) -> None:
    messages.insert(_node(rng, messages), messages[_node(rng, messages)])


def _drop(rng: Random, messages: list[bytes]) -> None:
    if len(messages) > 2:
        del messages[_node(rng, messages)]


def _swap(rng: Random, messages: list[bytes]) -> None:
    a, b = _node(rng, messages), _node(rng, messages)
    messages[a], messages[b] = messages[b], messages[a]


def _number(rng: Random, messages: list[bytes]) -> None:
    """A number of a node that is another one."""
    at = _node(rng, messages)
    field = rng.choice((_ID, _TYPE, _CTRL, _DATA, _START, _DURATION))
    messages[at] += varint(field << 3) + varint(rng.choice((*_ODD, *range(6))))


def _again(rng: Random, messages: list[bytes]) -> None:
    """An attribute that stands twice, the second time perhaps with another value."""
    at = _node(rng, messages)
    attributes = _attributes(messages[at])
    if attributes:
        messages[at] += _wrapped(_ATTR, _turned(rng, rng.choice(attributes)))


def _foreign(rng: Random, messages: list[bytes]) -> None:
    """An attribute that another node has."""
    attributes = _attributes(messages[_node(rng, messages)])
    if attributes:
        messages[_node(rng, messages)] += _wrapped(_ATTR, rng.choice(attributes))


def _retyped(rng: Random, messages: list[bytes]) -> None:
    """An attribute whose value is of another member of the oneof."""
    at = _node(rng, messages)
    fields = wire_fields(messages[at])
    places = [f for f in fields if f[2] >> 3 == _ATTR and isinstance(f[3], bytes)]
    if places:
        begin, end, _, body = rng.choice(places)
        assert isinstance(body, bytes)
        new = _wrapped(_ATTR, _turned(rng, body))
        messages[at] = messages[at][:begin] + new + messages[at][end:]


def _turned(rng: Random, attribute: bytes) -> bytes:
    """The attribute under its name, with a value of any kind: numbers, text, lists."""
    names = b"".join(attribute[b:e] for b, e, tag, _ in wire_fields(attribute) if tag >> 3 <= 2)
    if rng.random() < 0.2:
        return attribute
    member = rng.randrange(3, 33)
    if member % 2 == 0:  # lists
        inner = rng.choice((b"", b"\x0a\x02\x01\x02", b"\x08\x01", _wrapped(1, rng.randbytes(8))))
        return names + _wrapped(member, inner)
    if member in (29, 31):
        return names + _wrapped(member, rng.choice((b"", b"1", b"abc", b"0,1", rng.randbytes(3))))
    if member in (3, 21, 25):
        return (
            names + varint(member << 3 | 1) + rng.choice((bytes(8), b"\xff" * 8, rng.randbytes(8)))
        )
    if member in (5, 19, 23):
        return (
            names + varint(member << 3 | 5) + rng.choice((bytes(4), b"\xff" * 4, rng.randbytes(4)))
        )
    return names + varint(member << 3) + varint(rng.choice((*_ODD, *range(9))))


def _attributes(node: bytes) -> list[bytes]:
    return [v for _, _, tag, v in wire_fields(node) if tag >> 3 == _ATTR and isinstance(v, bytes)]


def _wrapped(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


_WAYS: tuple[Callable[[Random, list[bytes]], None], ...] = (
    _double, _drop, _swap, _number, _number, _again, _again, _foreign, _retyped, _retyped, _retyped,
)  # fmt: skip


def mutate_settings(rng: Random, data: bytes) -> bytes:
    """A file of settings whose values stay of their kinds, half of the time: numbers that are others, lists
    that are longer or in another order, parts that are gone or there again."""
    if rng.random() < 0.5:
        return mutate_yaml(rng, data)
    tree = yaml.safe_load(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _reset(rng, *rng.choice(places([tree])[1:]))
    return yaml.safe_dump(tree, sort_keys=False).encode()


def _reset(rng: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = not value
    elif isinstance(value, int):
        holder[key] = rng.choice((*range(-1, 10), 64, 1000, value + 1, *WHOLE))
    elif isinstance(value, float):
        holder[key] = rng.choice((0.0, 0.5, 3.0, value * 1e3, value / 1e3, *REAL, *WHOLE))
    elif isinstance(value, list) and value:
        _rearrange(rng, value)
    elif isinstance(holder, dict):
        del holder[key]


def _rearrange(rng: Random, value: list[Any]) -> None:
    way = rng.randrange(3)
    if way == 0:
        value.extend(copy.deepcopy(value) * rng.choice((1, 1, 20)))
    elif way == 1:
        rng.shuffle(value)
    else:
        del value[rng.randrange(len(value))]


def mutate_pages(rng: Random, data: bytes) -> bytes:
    """A Parquet file damaged where Parquet itself is read: pages, dictionaries, the footer's numbers."""
    if rng.random() < 0.4:
        return mutate_parquet(rng, data)
    out = bytearray(data)
    footer = len(out) - 8 - int.from_bytes(out[-8:-4], "little")
    low, high = (4, footer) if rng.random() < 0.5 else (footer, len(out) - 8)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if 0 < low < high <= len(out):
            out[rng.randrange(low, high)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def zstd_packed(inner: Mutate) -> Mutate:
    """A file packed with zstd: what is inside changes, sometimes the packing itself."""
    codec = pa.Codec("zstd")

    def mutate(rng: Random, data: bytes) -> bytes:
        if rng.random() < 0.3:
            return mutated_bytes(rng, data)
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return codec.compress(inner(rng, stream.read()), asbytes=True)  # type: ignore[no-any-return]

    return mutate
