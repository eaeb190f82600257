"""Tensors as the observer writes them, checked: which storage, where in it, of which shape and type."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from chakrakit.errors import TraceError
from chakrakit.operators import TYPES, mentioned_tensors, recorded_tensor, type_of_cpp
from chakrakit.replayer.plan.schema_text import split_list

ITEM_BYTES = {
    t.torch: t.bytes_of(1) for t in TYPES if t.torch and t.kind != "other" and t.bits % 8 == 0
}
"""Bytes of an element of every type that a replay can make tensors of, by PyTorch's name of it."""

INTEGERS = frozenset(t.torch for t in TYPES if t.torch in ITEM_BYTES and t.kind == "int")

_MOST_BYTES = 1 << 48
_MOST_DIMENSIONS = 64
_UNDEFINED = "nullptr"


class Unsupported(Exception):  # noqa: N818 - not an error: a stand-in takes the operator's place
    """An operator's arguments cannot be given to PyTorch as they were recorded."""


class Tensor(NamedTuple):
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


def read_tensor(value: list[Any], shape: Any, kind: str, strides: Any, place: str) -> Tensor:
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
    found = Tensor(storage, device, dtype, sizes, steps, offset)
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
