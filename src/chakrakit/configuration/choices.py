"""What msgspec says of a word that is not one of those allowed, with the words that are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chakrakit.configuration.document import place_in
from chakrakit.errors import nearest

_WRONG = "Invalid enum value '"


def with_choices(message: str, kind: Any) -> str:
    """The message about a `kind`; where a word is wrong, with those that are right."""
    if not message.startswith(_WRONG):
        return message
    found = [msgspec.inspect.type_info(kind)]
    for step in place_in(message):
        found = [inner for outer in found for inner in _inside(outer, step)]
    words = sorted({word for one in found for word in _words(one)})
    given = message.removeprefix(_WRONG).partition("'")[0]
    return f"{message}; {nearest(given, words)}" if words else message


def _inside(outer: Any, step: str | int) -> Iterator[Any]:
    """The types that something at a place within may have."""
    for one in _each(outer):
        if isinstance(one, (msgspec.inspect.StructType, msgspec.inspect.DataclassType)):
            yield from (f.type for f in one.fields if f.encode_name == step)
        elif isinstance(one, msgspec.inspect.DictType):
            yield one.value_type
        elif isinstance(one, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)):
            yield one.item_type


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
