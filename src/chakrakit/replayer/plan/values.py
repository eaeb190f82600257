"""Arguments of a call as a plan writes them, from what the observer wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from chakrakit.errors import TraceError
from chakrakit.operators import is_recorded_tensor, type_of_code
from chakrakit.replayer.plan.schema_text import Argument
from chakrakit.replayer.plan.tensors import (
    Tensor,
    Unsupported,
    is_undefined,
    item_types,
    read_tensor,
)

_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_NOTHING = ("<None>", "<Generator>")
_LONGEST_TEXT = 64
_TINY = 1e-8
"""Stands for an epsilon that was lost: the observer prints six decimals."""

Use = Callable[[Tensor], int]
"""Gives the slot of a tensor that is read."""


def plan_value(
    argument: Argument,
    item: tuple[Any, Any, str, Any],
    use: Use,
    place: str,
    device: Callable[[str], str],
) -> Any:
    """One argument as the plan says it."""
    value, shape, kind, strides = item
    if "Tensor" in argument.type:
        return _tensors(value, shape, kind, strides, use, place)
    if value in _NOTHING or kind == "None":
        return None
    if argument.type.startswith("ScalarType") and type(value) is int:
        return {"dtype": _data_type(value)}
    if argument.type.startswith("MemoryFormat") and type(value) is int:
        return {"format": _memory_format(value)}
    if argument.type.startswith("Layout"):
        return None  # strided, as all tensors here
    if argument.type.startswith("Device"):
        return {"device": device(str(value))}
    if argument.name == "eps" and value == 0:
        return _TINY
    return _plain(value)


def _data_type(number: int) -> str:
    element = type_of_code("torch", number)
    if element is None:
        raise Unsupported(f"data type {number}")
    return element.torch


def _memory_format(number: int) -> str:
    if not 0 <= number < len(_FORMATS):
        raise Unsupported(f"memory format {number}")
    return _FORMATS[number]


def _tensors(value: Any, shape: Any, kind: str, strides: Any, use: Use, place: str) -> Any:
    """A tensor, nothing, or a list of them."""
    if is_undefined(kind) or value in _NOTHING or kind == "None":
        return None
    if is_recorded_tensor(value):
        return {"slot": use(read_tensor(value, shape, kind, strides, place))}
    if not isinstance(value, list):
        return _plain(value)  # a number where a tensor may stand
    types = item_types(kind)
    if len(types) != len(value):
        raise Unsupported("a list that was cut short")
    return [
        _tensors(v, _at(shape, i), types[i], _at(strides, i), use, place)
        for i, v in enumerate(value)
    ]


def _at(items: Any, i: int) -> Any:
    return items[i] if isinstance(items, list) and i < len(items) else []


def _plain(value: Any) -> Any:
    """Numbers, truth values, short strings and lists of them."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    raise Unsupported(f"a value like {type(value).__name__}")


def _text(value: str) -> Any:
    if value in ("inf", "-inf", "nan"):
        return {"number": value}
    if value.startswith("<") or len(value) > _LONGEST_TEXT:
        raise Unsupported(f"an argument recorded as {value[:20]!r}")
    return value


def recorded_tensors(item: tuple[Any, Any, str, Any], place: str) -> list[Any]:
    """Results of one kind: a Tensor, None for what is no tensor, lists nested as recorded."""
    value, shape, kind, strides = item
    if is_undefined(kind) or not isinstance(value, list):
        return [None]
    if is_recorded_tensor(value):
        return [read_tensor(value, shape, kind, strides, place)]
    types = item_types(kind)
    if len(types) != len(value):
        raise Unsupported("a list that was cut short")
    nested = (
        recorded_tensors((v, _at(shape, i), types[i], _at(strides, i)), place)
        for i, v in enumerate(value)
    )
    return [[x for part in nested for x in part]]


def check_integer(value: Any, what: str, place: str, low: int = 0) -> int:
    """A number without which a collective cannot run."""
    if type(value) is not int or value < low:
        raise TraceError(f"{place}: {what} is {value!r}; it should be a number from {low}")
    return value
