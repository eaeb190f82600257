"""JSON of bounded depth, typed, with the line an error is about."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from chakrakit.configuration.files import LARGEST, Openable, read_bounded
from chakrakit.errors import ConfigError

DEEPEST = 64
"""Levels of lists and mappings; the deepest file of ours has 8."""

T = TypeVar("T")
_BYTE = re.compile(r" \(byte (\d+)\)")


def read_json(path: str | Openable, kind: type[T], what: str, largest: int = LARGEST) -> T:
    """A JSON file as a `kind`; `what` it should be, for errors, as in "a profile"."""
    return decode_json(read_bounded(path, largest), kind, str(path), what)


def decode_json(data: bytes, kind: type[T], where: str, what: str) -> T:
    """JSON text as a `kind`; `where` it stands and `what` it should be are for errors."""
    try:
        check_depth(msgspec.json.decode(data), f"{where}: not {what}")
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise _too_deep(f"{where}: not {what}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        at = _BYTE.search(str(error))
        line = "" if at is None else f":{data[: int(at[1])].count(10) + 1}"
        raise ConfigError(f"{where}{line}: not {what}: {_BYTE.sub('', str(error))}") from None


def check_depth(content: Any, where: str) -> None:
    """Refuses lists and mappings inside each other beyond `DEEPEST`."""
    level = [content]
    for _ in range(DEEPEST):
        level = [p for whole in level for p in _parts(whole) if isinstance(p, dict | list)]
        if not level:
            return
    raise _too_deep(where)


def _parts(whole: Any) -> Any:
    if isinstance(whole, dict):
        return whole.values()
    return whole if isinstance(whole, list) else ()


def _too_deep(where: str) -> ConfigError:
    return ConfigError(f"{where}: nested more than {DEEPEST} levels deep")
