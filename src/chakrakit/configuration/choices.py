"""What msgspec says of a word or a field that is not one of those allowed, with those that are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from chakrakit.configuration.document import place_in
from chakrakit.errors import nearest

_WORD = re.compile(r"Invalid enum value '([^']*)'")
_FIELD = re.compile(r"Object contains unknown field `([^`]*)`")


def with_choices(message: str, kind: Any) -> str:
    """The message about a `kind`; where a word or a field is wrong, with those that are right."""
    word, field = _WORD.match(message), _FIELD.match(message)
    wrong = word or field
    if wrong is None:
        return message
    types = [msgspec.inspect.type_info(kind)]
    for step in place_in(message):
        types = [inner for outer in types for inner in _inside(outer, step)]
    names = sorted({name for one in types for name in (_words if word else _fields)(one)})
    return f"{message}; {nearest(wrong[1], names)}" if names else message


def _inside(outer: Any, step: str | int) -> Iterator[Any]:
    """The types that something at a place within may have."""
    for one in _each(outer):
        if isinstance(one, (msgspec.inspect.StructType, msgspec.inspect.DataclassType)):
            yield from (f.type for f in one.fields if f.encode_name == step)
        elif isinstance(one, msgspec.inspect.DictType):
            yield one.value_type
        elif isinstance(one, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)):
            yield one.item_type


def _fields(outer: Any) -> Iterator[str]:
    for one in _each(outer):
        if isinstance(one, (msgspec.inspect.StructType, msgspec.inspect.DataclassType)):
            yield from (f.encode_name for f in one.fields)


def _words(outer: Any) -> Iterator[str]:
    for one in _each(outer):
        if isinstance(one, msgspec.inspect.LiteralType):
            yield from (word for word in one.values if isinstance(word, str))
        elif isinstance(one, msgspec.inspect.EnumType):
            yield from (str(member.value) for member in one.cls)


def _each(outer: Any) -> Iterator[Any]:
    """The types of a union; any other is alone."""
    if isinstance(outer, msgspec.inspect.UnionType):
        yield from outer.types
    else:
        yield outer
