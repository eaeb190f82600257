"""Just enough protobuf to write: fields of numbers, bytes and texts."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """A number in groups of seven bits."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def message(field: int, *parts: bytes) -> bytes:
    """A field with bytes: a message made of its fields."""
    content = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field with text; what is not valid Unicode is replaced."""
    return message(field, value.encode("utf-8", "replace"))
