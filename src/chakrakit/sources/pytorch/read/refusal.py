"""A file that the core's readers refuse: where it is damaged, and which file was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chakrakit import core
from chakrakit.errors import FormatError


def columns_of(
    read: Callable[[bytes], dict[str, Any]], data: bytes, path: str, writer: str
) -> dict[str, Any]:
    """What a reader of the core makes of a file's bytes; its error says what should have written them."""
    try:
        return read(data)
    except core.FormatError as error:
        message, offset = error.args
        said = f"{message}; give the file written by {writer}"
        raise FormatError(said, path=path or None, offset=offset) from None
