"""Tensors as the observer writes them, checked: which storage, where in it, of which shape and type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from chakrakit.errors import TraceError
from chakrakit.operators import (
    TYPES,
    is_recorded_tensor,
    mentioned_tensors,
    recorded_tensor,
    type_of_code,
    type_of_cpp,
)

# Operator schemas as PyTorch prints them: `aten::mm.out(Tensor self, …, *, Tensor(a!) out) -> …`.


_HEAD = re.compile(r"^(\w+)::(\w+)(?:\.(\w+))?\(")
_ARGUMENT = re.compile(r"^(?P<type>.+?)\s+(?P<name>\w+)(?:\s*=.*)?$")
_LONGEST = 20_000
"""Letters of a schema, of which PyTorch's own have some hundreds at most. Assumed."""


@dataclass(frozen=True)
class Argument:
    """One argument; `type` is as printed, without alias marks. `written` says `(a!)`."""

    name: str
    type: str
    keyword: bool
    written: bool


@dataclass(frozen=True)
class OperatorSchema:
    """What a schema says of how to call an operator."""

    namespace: str
    name: str
    overload: str
    arguments: tuple[Argument, ...]

    @property
    def full_name(self) -> str:
        """`aten::mm`."""
        return f"{self.namespace}::{self.name}"

    @property
    def without_out(self) -> OperatorSchema | None:
        """The overload that makes its result itself; None for one that is not handed a tensor for it."""
        last = self.arguments[-1] if self.arguments else None
        if self.overload != "out" or last is None or (last.name, last.type) != ("out", "Tensor"):
            return None
        return replace(self, overload="", arguments=self.arguments[:-1])


@lru_cache(maxsize=4096)
def parse_schema(text: str) -> OperatorSchema | None:
    """The schema in a text; None for what is not one."""
    head = _HEAD.match(text)
    if head is None or len(text) > _LONGEST:
        return None
    inside = _until_closed(text, head.end())
    if inside is None:
        return None
    arguments: list[Argument] = []
    keyword = False
    for part in split_list(inside):
        if part == "*":
            keyword = True
            continue
        match = _ARGUMENT.match(part)
        if match is None:
            return None
        kind = re.sub(r"\([^()]*\)", "", match["type"])
        arguments.append(Argument(match["name"], kind, keyword, "!" in match["type"]))
    return OperatorSchema(head[1], head[2], head[3] or "", tuple(arguments))


def _until_closed(text: str, start: int) -> str | None:
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return text[start:i]
    return None


def split_list(text: str) -> list[str]:
    """The parts between commas that no bracket encloses."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


ITEM_BYTES = {
    t.torch: t.bytes_of(1) for t in TYPES if t.torch and t.kind != "other" and t.bits % 8 == 0
}
"""Bytes of an element of every type that a replay can make tensors of, by PyTorch's name of it."""

INTEGERS = frozenset(t.torch for t in TYPES if t.torch in ITEM_BYTES and t.kind == "int")

_MOST_BYTES = 1 << 48
"""Of one storage: as many addresses as processors have. A larger one is a mistake in the recording."""
_MOST_DIMENSIONS = 64
"""PyTorch's own limit of dimensions."""
_UNDEFINED = "nullptr"


class Unsupported(Exception):  # noqa: N818 - not an error: a stand-in takes the operator's place
    """An operator's arguments cannot be given to PyTorch as they were recorded."""


class StorageView(NamedTuple):
    """A view of a storage. Offset, shape and strides are in elements."""

    storage: int
    device: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def extent(self) -> int:
        """Bytes from the storage's begin to its last element."""
        if not self.elements:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (self.offset + last + 1) * ITEM_BYTES[self.dtype]

    @property
    def lists(self) -> tuple[str, list[int], list[int], int]:
        """Type, shape, strides and offset as a plan has them."""
        return self.dtype, list(self.shape), list(self.strides), self.offset


def is_undefined(kind: str) -> bool:
    """Whether a recorded type is that of a tensor that is not there; a list of some is a list."""
    return _UNDEFINED in kind and kind.startswith("Tensor(")


def read_tensor(value: list[Any], shape: Any, kind: str, strides: Any, place: str) -> StorageView:
    """A recorded tensor; a TraceError for one that cannot be, Unsupported for an unknown type or layout."""
    storage, offset, elements, width, device = value[1:]
    if not device:  # of a sparse tensor PyTorch records neither storage nor device
        raise Unsupported("sparse tensors")
    name, dtype = _element_text(kind), tensor_type(kind)
    if dtype is None:
        raise Unsupported(f"tensors of {name or 'unknown type'}")
    bytes_each = ITEM_BYTES[dtype]
    sizes = _sizes(shape, "shape", place)
    steps = _sizes(strides, "strides", place)
    if len(steps) != len(sizes):
        steps = _contiguous(sizes)
    if recorded_tensor(value) is None:
        raise TraceError(
            f"{place}: a tensor with offset {offset} and {elements:,} elements of {width} bytes; "
            "no machine has them"
        )
    found = StorageView(storage, device, dtype, sizes, steps, offset)
    if found.elements != elements:
        raise TraceError(
            f"{place}: a tensor of shape {list(sizes)[:8]} cannot have {elements:,} elements"
        )
    if width != bytes_each:
        raise TraceError(f"{place}: elements of {name} have {bytes_each} bytes, not {width}")
    if max(found.extent, elements * bytes_each) > _MOST_BYTES:
        raise TraceError(
            f"{place}: a tensor of shape {list(sizes)[:8]} takes {found.extent:,} bytes; no machine "
            "has them"
        )
    return found


def _sizes(found: Any, what: str, place: str) -> tuple[int, ...]:
    if not isinstance(found, list) or len(found) > _MOST_DIMENSIONS:
        raise TraceError(f"{place}: a tensor's {what} should be a short list of numbers")
    for size in found:
        if type(size) is not int or not 0 <= size <= _MOST_BYTES:
            raise TraceError(f"{place}: {size!r} in a tensor's {what}; sizes are numbers from 0")
    return tuple(found)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of files that record none."""
    out, step = [], 1
    for size in reversed(shape):
        out.append(step)
        step *= max(size, 1)
    return tuple(reversed(out))


def tensor_type(kind: str) -> str | None:
    """PyTorch's name of a tensor's type, from `Tensor(float)` or as Kineto writes it; None for others."""
    element = type_of_cpp(_element_text(kind))
    return element.torch if element is not None and element.torch in ITEM_BYTES else None


def _element_text(kind: str) -> str:
    return kind.removeprefix("Tensor(").removesuffix(")")


def item_types(kind: str) -> list[str]:
    """Types of the items of `GenericList[Tensor(float),Int]` or `Tuple[…]`."""
    _, bracket, rest = kind.partition("[")
    return split_list(rest.removesuffix("]")) if bracket else []


def storages_in(value: Any) -> set[tuple[str, int]]:
    """(device, number) of every storage that recorded values mention."""
    return {(tensor.device, tensor.storage) for tensor, _, _ in mentioned_tensors(value)}


# Arguments of a call as a plan writes them, from what the observer wrote.


_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_NOTHING = ("<None>", "<Generator>")
_LONGEST_TEXT = 64
"""Characters of a text argument; the names of modes and reductions, all there are, have about ten."""
_TINY = 1e-8
"""Stands for an epsilon that was lost: the observer prints six decimals."""

Use = Callable[[StorageView], int]
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
