"""Configuration read safely: numbers with bounds, files of bounded size, typed JSON of bounded depth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Protocol, TypeVar

import msgspec

from chakrakit.errors import ConfigError

# Numbers with bounds, for the fields of configuration structs.

Count = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]


# Bytes and text of files, up to a limit.

LARGEST = 16 << 20
"""Bytes of a file that people write. The largest that comes with chakrakit is a profile of 0.3 MB."""
LARGEST_WRITTEN = 256 << 20
"""Bytes of what a tool writes: measurements, results, the groups of a million ranks."""


class Openable(Protocol):
    """A path, or something that opens like one: a file inside a bundle."""

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
    """Bytes decoded as UTF-8, with or without a byte order mark; an error names the line."""
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


DEEPEST = 64
"""Levels of nested lists and mappings; the deepest file that comes with chakrakit has 8."""

T = TypeVar("T")
_BYTE = re.compile(r" \(byte (\d+)\)")


def read_json(path: str | Openable, kind: type[T], expected: str, largest: int = LARGEST) -> T:
    """A JSON file as a `kind`; errors say that it is not `expected`, as in "a profile"."""
    return decode_json(read_bounded(path, largest), kind, str(path), expected)


def decode_json(data: bytes, kind: type[T], where: str, expected: str) -> T:
    """JSON text as a `kind`; errors name it by `where` and say that it is not `expected`."""
    try:
        check_depth(msgspec.json.decode(data), f"{where}: not {expected}")
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise _too_deep(f"{where}: not {expected}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        at = _BYTE.search(str(error))
        line = "" if at is None else f":{data[: int(at[1])].count(10) + 1}"
        raise ConfigError(f"{where}{line}: not {expected}: {_BYTE.sub('', str(error))}") from None


_WHOLES = (dict, list)
"""What has parts. A tuple, since `dict | list` would be made anew for each of a million values."""


def check_depth(content: Any, where: str) -> None:
    """Refuses lists and mappings inside each other beyond `DEEPEST`."""
    level = [content]
    for _ in range(DEEPEST):
        level = [p for whole in level for p in _parts(whole) if isinstance(p, _WHOLES)]
        if not level:
            return
    raise _too_deep(where)


def _parts(whole: Any) -> Any:
    if isinstance(whole, dict):
        return whole.values()
    return whole if isinstance(whole, list) else ()


def _too_deep(where: str) -> ConfigError:
    return ConfigError(f"{where}: nested more than {DEEPEST} levels deep")
