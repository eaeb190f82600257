"""Protobuf messages written field by field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chakrakit.trace.model import field_bytes, varint


@pytest.fixture
def message() -> Callable[..., bytes]:
    """Makes a message of (field number, value): numbers, texts, or messages as bytes."""

    def make(*fields: tuple[int, int | str | bytes]) -> bytes:
        return b"".join(
            varint(number << 3) + varint(value % 2**64)
            if isinstance(value, int)
            else field_bytes(number, value.encode() if isinstance(value, str) else value)
            for number, value in fields
        )

    return make
