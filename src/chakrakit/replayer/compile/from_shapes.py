"""Calls made from what was written of their arguments: shapes, types, strides and plain values.

Kineto, a captured program and a graph's capture say this much of an operator and no more: which tensors
were the same is not known. All arguments are given in the order of the schema, which the runner looks up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chakrakit.replayer.compile.indices import WITH_NUMBERS
from chakrakit.replayer.plan import Call
from chakrakit.replayer.runner import ANY_OVERLOAD
from chakrakit.replayer.tensors import Unsupported, item_types, tensor_type

MakeTensor = Callable[[str, Sequence[int], Sequence[int]], int]
"""Type, shape and strides → the slot of a tensor."""

_NUMBERS: dict[Any, float | int] = {"double": 1.0, "long int": 1}
"""How Kineto writes a number that stands where a tensor could."""
_LOST_TYPE = "<dtype>"
_NOTHING = ("", "None", "Object")


@dataclass(frozen=True)
class Written:
    """What is written of a call: parallel lists over its arguments, and the type of its result if known."""

    name: str
    shapes: Sequence[Any]
    types: Sequence[Any]
    strides: Sequence[Any]
    values: Sequence[Any]
    result: str | None = None

    def argument(self, i: int, make: MakeTensor) -> Any:
        """One argument as a plan says it."""
        kind, shape = self.types[i], _at(self.shapes, i)
        number = i and self.name.removeprefix("aten::") in WITH_NUMBERS
        if number and _is_number(kind, shape):
            return _NUMBERS[kind]
        if _at(self.values, i) == _LOST_TYPE and self.result is not None:
            return {"dtype": self.result}  # which one was not written; it is what came out
        return _argument(kind, shape, _at(self.strides, i), _at(self.values, i), make)


def made_call(written: Written, make: MakeTensor) -> Call:
    """The call; Unsupported where an argument cannot be told."""
    count = len(written.types)
    while count > 1 and _is_empty(written.types[count - 1], _at(written.shapes, count - 1)):
        count -= 1  # a result that the operator was to allocate
    args = [written.argument(i, make) for i in range(count)]
    return Call(op=written.name, overload=ANY_OVERLOAD, args=args)


def _is_number(kind: Any, shape: Any) -> bool:
    return kind in _NUMBERS and shape == []


def _is_empty(kind: Any, shape: Any) -> bool:
    return isinstance(kind, str) and tensor_type(kind) is not None and shape == [0]


def _at(items: Sequence[Any], i: int) -> Any:
    return items[i] if i < len(items) else []


def _argument(kind: Any, shape: Any, strides: Any, value: Any, make: MakeTensor) -> Any:
    if not isinstance(kind, str):
        raise Unsupported("an argument without a type")
    dtype = tensor_type(kind)
    if dtype is not None:
        return {"slot": make(dtype, _sizes(shape), _sizes(strides))}
    if kind in _NOTHING or "nullptr" in kind:
        return None
    if kind.startswith("GenericList"):
        return _list(kind, shape, strides, value, make)
    if kind == "TensorList":
        raise Unsupported("a list of tensors without types")
    return _plain(value)


def _list(kind: str, shape: Any, strides: Any, value: Any, make: MakeTensor) -> Any:
    types = item_types(kind)
    if not any(tensor_type(t) for t in types):
        return _plain(value)
    return [_argument(t, _at(shape, i), _at(strides, i), None, make) for i, t in enumerate(types)]


def _sizes(found: Any) -> list[int]:
    if not isinstance(found, list) or not all(type(n) is int and 0 <= n < 1 << 48 for n in found):
        raise Unsupported("a shape that is not one")
    return found


def _plain(value: Any) -> Any:
    """Kineto writes everything as text."""
    if isinstance(value, str):
        if value in ("", "None"):
            return None
        if value.startswith("<"):
            raise Unsupported(f"an argument recorded as {value[:20]!r}")
        try:
            return json.loads(value.lower() if value in ("True", "False") else value.rstrip("."))
        except ValueError:
            return value if len(value) < 64 else None
    return value
