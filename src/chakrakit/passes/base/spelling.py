"""How a pass is written: `name{field=value, field=[a, b]}`, to text and back to plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from chakrakit.configuration import decode_yaml
from chakrakit.errors import ConfigError

_SPEC = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+(?::+[A-Za-z0-9_./-]+)*")
"""Text that YAML reads as itself, whatever stands around it."""
_PAIRS = {"[": "]", "{": "}"}


def spelled(name: str, fields: Mapping[str, Any]) -> str:
    """A pass and its fields as text; `split` reads it back."""
    inside = ", ".join(f"{field}={_value(value)}" for field, value in fields.items())
    return f"{name}{{{inside}}}" if inside else name


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_value(k)}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else f'"{"".join(map(_escaped, value))}"'
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return _value(str(value.name))  # a Machine, say, is known by its name


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def split(spec: str, option: str = "--pass") -> tuple[str, dict[str, Any]]:
    """A name and its fields; numbers are still text, which the fields' types decide.

    `option` is where the text was given, for errors.
    """
    found = _SPEC.fullmatch(spec)
    if found is None:
        raise ConfigError(
            f"{option} {spec!r}: should look like name or name{{field=value, field=[a, b]}}"
        )
    name, inside = found.groups()
    return name, dict(_field(part, spec, option) for part in _parts(inside or "", spec, option))


def _field(part: str, spec: str, option: str) -> tuple[str, Any]:
    field, equals, text = part.partition("=")
    if not equals or not field.strip():
        raise ConfigError(f"{option} {spec!r}: {part.strip()!r} should be field=value")
    return field.strip().replace("-", "_"), _read(text.strip(), spec, option)


def _read(text: str, spec: str, option: str) -> Any:
    """A value in YAML's flow style; what is no list, mapping or quoted text is taken as it stands."""
    if text[:1] not in ("[", "{", '"', "'"):
        return text
    return decode_yaml(text, f"{option} {spec!r}: cannot read {text!r}", typed=False)


def _parts(inside: str, spec: str, option: str) -> Iterator[str]:
    """Cut at the commas that stand in no bracket and no quotes."""
    closers: list[str] = []
    quote, begin, before = "", 0, ""
    for place, char in enumerate(inside):
        if quote:
            quote = "" if char == quote and before != "\\" else quote
        elif char in "\"'" and (closers or before in "=,[{: "):
            quote = char
        elif char in _PAIRS:
            closers.append(_PAIRS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        elif char == "," and not closers:
            yield inside[begin:place]
            begin = place + 1
        before = "" if before == "\\" and char == "\\" else char
    if quote or closers:
        raise ConfigError(f"{option} {spec!r}: {quote or closers[-1]} is missing")
    if inside[begin:].strip() or begin:
        yield inside[begin:]
