"""A configuration file's bytes and text, up to a size that nobody writes by hand."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from chakrakit.errors import ConfigError

LARGEST = 16 << 20
"""Bytes. The largest that comes with chakrakit is a profile of 0.3 MB."""
LARGEST_WRITTEN = 256 << 20
"""Bytes of what a tool writes: measurements, results, the groups of a million ranks."""


class Openable(Protocol):
    """A path, or what is opened like one: a file inside a bundle."""

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Its bytes."""


def read_bounded(path: str | Openable, largest: int = LARGEST) -> bytes:
    """The bytes of a file of at most `largest`; no more than that is ever read."""
    try:
        with (Path(path) if isinstance(path, str) else path).open("rb") as stream:
            data = stream.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # a path with a zero byte
        raise ConfigError(f"{str(path)!r}: cannot be read: {error}") from None
    if len(data) > largest:
        raise ConfigError(
            f"{path}: larger than {largest >> 20} MiB, which is too large for a configuration"
        )
    return data


def as_text(data: bytes, where: str) -> str:
    """UTF-8, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{where}:{line}: not text in UTF-8 (byte {error.start:,} is {data[error.start]:#04x})"
        ) from None


def read_text_file(path: str | Openable, largest: int = LARGEST) -> str:
    """The text of a file of at most `largest` bytes."""
    return as_text(read_bounded(path, largest), str(path))
