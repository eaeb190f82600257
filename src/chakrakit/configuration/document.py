"""A configuration file's content with its line numbers, so that an error can name the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from chakrakit.configuration.json_text import as_text, check_depth, read_bounded
from chakrakit.configuration.yaml_text import composed, constructed
from chakrakit.errors import ConfigError, nearest

Place = tuple[str | int, ...]
"""Keys and list positions from the top of the file: ("axes", "plan.tp", 2)."""

T = TypeVar("T")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r" - at `(?:key in )?\$([^`]*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


class Document:
    """A document's content and the line of everything in it."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self._text = text
        json_content = _as_json(text, path)
        self.content: Any = (
            json_content if json_content is not None else constructed(self._top, path)
        )

    @cached_property
    def _top(self) -> Any:
        return composed(self._text, self.path)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that is in the file."""
        try:
            node, line = self._top, 1
        except ConfigError:  # JSON that YAML does not take, as with tabs
            return 1
        for step in place:
            child = _child(node, step)
            if child is None:
                return line
            node, line = child
        return line

    def error(self, place: Place, message: str) -> ConfigError:
        """The error to raise about a place."""
        return ConfigError(f"{self.path}:{self.line(place)}: {message}")

    def convert(self, kind: type[T]) -> T:
        """The content as a `kind`; where it does not fit, a ConfigError names the line."""
        try:
            return msgspec.convert(self.content, kind)
        except msgspec.ValidationError as error:
            raise self.converted(str(error), (), []) from None

    def converted(self, message: str, base: Place, field_names: list[str]) -> ConfigError:
        """A message of msgspec as a ConfigError with its line and, for an unknown field, the nearest names.

        `base` is where in the document the converted part stands.
        """
        place, problem = base + place_in(message), _AT.sub("", message)
        unknown = _UNKNOWN.search(message)
        if unknown and field_names:
            problem = f"no field {unknown[1]!r}; {nearest(unknown[1], field_names)}"
            return self.error((*place, unknown[1]), problem)
        return self.error(place, f"{'.'.join(map(str, place))}: {problem}" if place else problem)

    def pointed(self, message: str) -> ConfigError:
        """A ConfigError with this message and the line of the place that the message names.

        A place is named in msgspec's way, or as `PATH.network[0].size: …`.
        """
        spelled = re.match(re.escape(self.path) + r"((?:\.[\w-]+|\[\d+\])+): ", message)
        place = _steps(spelled[1]) if spelled else place_in(message)
        if not place:
            return ConfigError(message)
        problem = message.removeprefix(self.path).removeprefix(": ").removeprefix(".")
        return self.error(place, problem)


def place_in(message: str) -> Place:
    """The place that a message of msgspec names; () where it names none."""
    at = _AT.search(message)
    return _steps(at[1] if at else "")


def _steps(text: str) -> Place:
    return tuple(int(n) if n else k for k, n in _STEP.findall(text))


def read_document(path: str | Path, holds: str) -> Document:
    """Reads a YAML or JSON file that is a mapping; `holds` says in errors what it should hold."""
    return parse_document(read_bounded(path), str(path), holds)


def parse_document(data: bytes, where: str, holds: str) -> Document:
    """The same from bytes; `where` names them in errors."""
    document = Document(as_text(data, where), where)
    if not isinstance(document.content, dict):
        raise ConfigError(f"{where}: should hold {holds}")
    return document


def plain(content: Any) -> Any:
    """Content that Python wrote, with NumPy's numbers and arrays, tuples and paths as files have them."""
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [plain(value) for value in content]
    if isinstance(content, Path):
        return str(content)
    if isinstance(content, (np.generic, np.ndarray)):
        return content.tolist()
    return content


def document_of(content: Mapping[str, Any], where: str, holds: str) -> Document:
    """A mapping that Python wrote, as if it stood in a file; errors name its keys, and always line 1."""
    return parse_document(msgspec.json.encode(plain(content)), where, holds)


def _as_json(text: str, where: str) -> Any:
    """The content where it is JSON, which is decoded a hundred times faster; None where it is not."""
    if text.lstrip()[:1] not in ("{", "[") or "\\u0000" in text:  # which YAML refuses with its line
        return None
    try:
        content = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None  # a flow mapping of YAML's, or neither
    check_depth(content, where)
    return content


def _child(node: Any, step: str | int) -> tuple[Any, int] | None:
    """The value of a key, or an item of a list, with its line; None where there is none."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None
