"""YAML of bounded depth and size, where an alias counts as much as what it stands for.

PyYAML composes nodes by recursion (in C without any limit), an alias costs nothing where it stands and
everything where it is followed, and some scalars are arithmetic. So the events are checked first, which
needs no recursion, then the graph of nodes, and only what is small becomes Python objects.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from chakrakit.configuration.json_text import DEEPEST
from chakrakit.errors import ConfigError

MOST_VALUES = 200_000
"""Scalars, lists and mappings, those behind aliases once for each alias; larger files can be JSON."""
_LONGEST_NUMBER = 400
"""Characters. The largest float has 309 digits; longer integers take quadratic time to convert."""
_NUMBERS = {f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")}
_KEYS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "merge", "value")}


class _Typed(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's loader with numbers as YAML 1.2 has them: `1e12`, which PyYAML takes for text."""


_Typed.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_UNTYPED = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def decode_yaml(text: str, where: str, typed: bool = True) -> Any:
    """A YAML text's content; where not `typed`, every scalar stays text."""
    return constructed(composed(text, where, typed), where, typed)


def composed(text: str, where: str, typed: bool = True) -> Any:
    """The YAML nodes of a text, which know their lines; their depth and size are checked."""
    loader = _Typed if typed else _UNTYPED
    try:
        _check_events(text, loader, where)
        node = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{where}{_line(error)}: not YAML: {_problem(error)}") from None
    if node is not None:
        _Measure(where).take(node, 0)
    return node


def constructed(node: Any, where: str, typed: bool = True) -> Any:
    """The Python objects that checked nodes stand for."""
    if node is None:
        return None
    kind = yaml.constructor.SafeConstructor if typed else yaml.constructor.BaseConstructor
    try:
        return kind().construct_document(node)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}{_line(error)}: not YAML: {_problem(error)}") from None
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        # `!!int x`, the 99th of a month
        raise ConfigError(f"{where}: not YAML: a value is not of its kind: {error}") from None


def _check_events(text: str, loader: Any, where: str) -> None:
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            line = "" if event.start_mark is None else f":{event.start_mark.line + 1}"
            raise ConfigError(f"{where}{line}: nested more than {DEEPEST} levels deep")
        if count > 2 * MOST_VALUES:
            raise _too_large(where)


class _Measure:
    """Measures how large and how deep nodes are with their aliases followed; visits each node once."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.extents: dict[int, tuple[int, int] | None] = {}
        """By node: values and levels below it; None while it is being measured."""

    def take(self, node: Any, depth: int) -> tuple[int, int]:
        """How many values and levels a node has; refuses what is deeper than `DEEPEST` in all."""
        if id(node) not in self.extents:
            self.extents[id(node)] = None
            self.extents[id(node)] = self._measured(node, depth)
        extent = self.extents[id(node)]
        if extent is None:
            raise self._error(node, "an alias inside of what it stands for")
        if depth + extent[1] > DEEPEST:
            raise self._error(node, f"nested more than {DEEPEST} levels deep")
        return extent

    def _measured(self, node: Any, depth: int) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
                raise self._error(node, f"a number of {len(node.value):,} characters")
            if "\0" in node.value:  # no file's name, and no text of anybody's
                raise self._error(node, "a character with the code 0; leave it out")
            return 1, 0
        if depth > DEEPEST:
            raise self._error(node, f"nested more than {DEEPEST} levels deep")
        parts = self._values(node) if isinstance(node, yaml.MappingNode) else node.value
        sizes = [self.take(part, depth + 1) for part in parts]
        total = 1 + sum(size for size, _ in sizes)
        if total > MOST_VALUES:
            raise _too_large(self.where)
        return total, 1 + max((height for _, height in sizes), default=0)

    def _values(self, node: Any) -> list[Any]:
        """The values of a mapping. Two equal keys are refused: YAML would silently take the last."""
        key_texts: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEYS:
                raise self._error(key, "a key that is neither text nor a number")
            if key.value in key_texts:
                raise self._error(key, f"{key.value!r} is there twice; keep one of them")
            if len(key.value) > _LONGEST_NUMBER and key.tag in _NUMBERS:
                raise self._error(key, f"a number of {len(key.value):,} characters")
            key_texts.add(key.value)
        return [value for _, value in node.value]

    def _error(self, node: Any, message: str) -> ConfigError:
        return ConfigError(f"{self.where}:{node.start_mark.line + 1}: {message}")


def _too_large(where: str) -> ConfigError:
    return ConfigError(
        f"{where}: more than {MOST_VALUES:,} values, aliases followed; write fewer, or JSON"
    )


def _line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f":{mark.line + 1}" if mark is not None else ""


def _problem(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error)
    return " ".join(str(problem).split())
