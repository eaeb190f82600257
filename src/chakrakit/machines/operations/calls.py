"""Calls: an operator with its tensors (shape, strides, element size, storage) and plain arguments.

They come from the texts that recorders write into traces (`inputs_shapes`, `inputs_types`, …); whatever
those texts do not say is unknown, never an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from chakrakit.operators import find_type

_ELEMENT = re.compile(r"Tensor\(((?:nullptr \()?[^()]*)\)")
_NOTHING = "nullptr"
_DESCRIBED = 6
"""Items that describe a tensor among a call's values: tensor, storage, offset, elements, size, device."""


class Operand(NamedTuple):
    """A tensor of a call. `storage` is -1 where it is not known, and strides are none then too."""

    shape: tuple[int, ...]
    each: int
    dtype: str = ""
    strides: tuple[int, ...] | None = None
    storage: int = -1

    @property
    def elements(self) -> int:
        """How many elements it has to the program."""
        return math.prod(self.shape)

    @property
    def touched(self) -> int:
        """Bytes of it in memory: a dimension of stride 0 repeats the same ones."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements * self.each
        kept = [n for n, s in zip(self.shape, self.strides, strict=True) if s]
        return math.prod(kept) * self.each if self.elements else 0

    @property
    def run(self) -> int:
        """Bytes that lie next to each other, in the order in which the program counts the elements."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements * self.each
        length = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != length:
                break
            length *= n
        return length * self.each

    @property
    def contiguous(self) -> bool:
        """Whether it lies in memory as the program counts it."""
        return self.run >= self.elements * self.each

    @property
    def dense(self) -> bool:
        """Whether it fills its memory without gaps or repetition, in whatever order."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return True
        length = 1
        for stride, n in sorted(zip(self.strides, self.shape, strict=True)):
            if n != 1 and stride != length:
                return False
            length *= n
        return True


class Call(NamedTuple):
    """One call of an operator. An input is a tensor, a list of tensors, or None for anything else."""

    name: str
    inputs: list[Operand | list[Operand] | None]
    values: Sequence[Any] = ()
    outputs: Sequence[Operand] = ()
    kernels: tuple[str, ...] = ()
    """Names of the kernels it launched, where a recording knows them."""

    @property
    def short(self) -> str:
        """`mm` of `aten::mm`; `add` also of `aten::add_`."""
        name = self.name.partition("::")[2] or self.name
        return name[:-1] if name.endswith("_") and not name.endswith("__") else name

    @property
    def in_place(self) -> bool:
        """Whether the first tensor is written to."""
        return self.name.endswith("_") and not self.name.endswith("__")

    @property
    def tensors(self) -> list[Operand]:
        """All tensors among the inputs, lists opened."""
        out: list[Operand] = []
        for found in self.inputs:
            out += found if isinstance(found, list) else [found] if found is not None else []
        return out

    def tensor(self, index: int) -> Operand | None:
        """The tensor at a place, or None."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, Operand) else None

    def listed(self, index: int) -> list[Operand]:
        """The list of tensors at a place, or an empty one."""
        found = self.inputs[index] if index < len(self.inputs) else None
        return found if isinstance(found, list) else []

    def value(self, index: int) -> Any:
        """A plain argument, or None."""
        return self.values[index] if index < len(self.values) else None


def read_call(
    name: str, shapes: str, types: str, strides: str = "", values: str = "", **more: Any
) -> Call:
    """A call from the texts of a trace's row; `more` are further fields of it."""
    told = _parse(values)
    return Call(name, _inputs(shapes, types, strides, told), told, **more)


def read_operands(shapes: str, types: str, values: str = "") -> list[Operand]:
    """The tensors of a text of results."""
    out: list[Operand] = []
    for one in _inputs(shapes, types, "", _parse(values)):
        out += one if isinstance(one, list) else [one] if one is not None else []
    return out


def _inputs(
    shapes: str, types: str, strides: str, told: list[Any]
) -> list[Operand | list[Operand] | None]:
    """One entry per shape; shapes beyond the types that are told are of the first one's."""
    listed, kinds, steps = _parse(shapes), _types(types), _parse(strides)
    kinds += [kinds[0] if kinds and shape else "" for shape in listed[len(kinds) :]]
    return [
        _operands(shape, kind, _at(steps, i), _at(told, i))
        for i, (shape, kind) in enumerate(zip(listed, kinds, strict=False))
    ]


def _operands(shape: Any, kind: str, strides: Any, told: Any) -> Operand | list[Operand] | None:
    names = _ELEMENT.findall(kind)
    if kind.startswith("GenericList") or (_nested(shape) and names):
        if not names:
            return None
        each = zip(
            shape, names if len(names) == len(shape) else names[:1] * len(shape), strict=False
        )
        found = [
            _operand(one, name, _at(strides, i), _at(told, i)) for i, (one, name) in enumerate(each)
        ]
        return [f for f in found if f is not None]
    return _operand(shape, names[0], strides, told) if names else None


def _operand(shape: Any, name: str, strides: Any, told: Any) -> Operand | None:
    if name.startswith(_NOTHING) or not isinstance(shape, list):
        return None
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        return None
    sound = isinstance(strides, list) and len(strides) == len(shape)
    steps = tuple(strides) if sound and all(isinstance(n, int) for n in strides) else None
    described = isinstance(told, list) and len(told) == _DESCRIBED and isinstance(told[1], int)
    if described and isinstance(told[5], str) and told[5].startswith("cpu"):
        return None
    element = find_type(name)
    recorded = told[4] if described and isinstance(told[4], int) else 4
    size = recorded if element is None else element.bytes_of(1)
    return Operand(tuple(shape), size, name, steps, told[1] if described else -1)


def _nested(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(s, list) for s in shape)


def _at(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _types(text: str) -> list[str]:
    return [t if isinstance(t, str) else "" for t in _parse(text)]


def _parse(text: str) -> list[Any]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
