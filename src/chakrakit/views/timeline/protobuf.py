"""Fields of a protobuf message that is not the trace schema's: numbers, texts and messages in it."""

from __future__ import annotations

from chakrakit.trace.model import field_bytes, varint


def number(field: int, value: int) -> bytes:
    """A field with a number; zero too, which the reader tells from absence."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def message(field: int, *parts: bytes) -> bytes:
    """A field with bytes: a message made of its fields."""
    return field_bytes(field, b"".join(parts))


def text(field: int, value: str) -> bytes:
    """A field with text; what is not valid Unicode is replaced."""
    return message(field, value.encode("utf-8", "replace"))
