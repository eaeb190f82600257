"""Operators that look at rows as wholes: normalisations, softmax, reductions, sorts, losses."""

from __future__ import annotations

import math
from typing import Any

from chakrakit.operators.calls import Call, Measure, Operand, Operation


def rows(kind: str, passes: int, table: str = "") -> Measure:
    """Measures by (rows, bytes of a row) of the first tensor, which goes through memory `passes` times."""

    def measure(call: Call) -> Operation | None:
        x = call.tensor(0)
        if x is None or not x.elements or not x.shape:
            return None
        count, length = x.elements // x.shape[-1], x.shape[-1] * x.each
        return Operation(
            kind, (count, length), 0.0, float(passes * count * length), table or call.short
        )

    return measure


def groups(kind: str, passes: int) -> Measure:
    """Measures images normalised in groups of channels by (groups of all images, bytes of a group)."""

    def measure(call: Call) -> Operation | None:
        x = call.tensor(0)
        numbers = [v for v in call.values if isinstance(v, int) and not isinstance(v, bool)]
        if x is None or not x.elements or len(x.shape) < 3:
            return None
        each = numbers[3] if len(numbers) > 3 and numbers[3] > 0 else 32
        count = x.shape[0] * each
        length = max(1, x.elements // count) * x.each
        table = call.short + ("" if x.contiguous else ".last") + (".fp32" if x.each == 4 else "")
        return Operation(kind, (count, length), 0.0, float(passes * x.elements * x.each), table)

    return measure


def channels(kind: str, passes: int) -> Measure:
    """Measures images normalised by channel by (values per channel, channels)."""

    def measure(call: Call) -> Operation | None:
        x = call.tensor(0)
        if x is None or len(x.shape) < 2 or not x.elements:
            return None
        count = x.shape[1]
        last = len(x.shape) != 4 or (x.strides is not None and x.strides[1] == 1)
        name = kind if last else f"{kind}_nchw"
        shape = (x.elements // count, count)
        moved = float(passes * x.elements * x.each)
        table = call.short + ("" if last else ".nchw") + (".fp32" if x.each == 4 else "")
        return Operation(name, shape, 0.0, moved, table)

    return measure


def _axes(value: Any, rank: int) -> list[int]:
    if isinstance(value, bool) or value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    return [v % rank for v in listed if isinstance(v, int) and -rank <= v < rank] if rank else []


def results_of(call: Call, x: Operand, place: int) -> int:
    """How many results a reduction of x has: as recorded, else by the axes in the argument at `place`."""
    if call.outputs:
        return call.outputs[0].elements
    axes = _axes(call.value(place), len(x.shape)) or range(len(x.shape))
    return x.elements // max(1, math.prod(x.shape[a] for a in axes))


def reduction(kind: str, place: int) -> Measure:
    """Measures a reduction by (results, bytes of each); the class says whether these bytes are adjacent.

    The axes are the argument at `place`.
    """

    def measure(call: Call) -> Operation | None:
        x = call.tensor(0)
        if x is None or not x.elements:
            return None
        axes = _axes(call.value(place), len(x.shape)) or list(range(len(x.shape)))
        length = math.prod(x.shape[a] for a in axes)
        results = x.elements // max(1, length)
        together = _reduces_neighbours(x, axes)
        where = ".all" if results == 1 else ".inner" if together else ".outer"
        if together and 0 in axes and len(axes) < len(x.shape):
            where = ".both"
        moved = x.touched + results_of(call, x, place) * x.each
        return Operation(
            kind, (results, length * x.each), 0.0, float(moved), f"{call.short}{where}"
        )

    return measure


def _reduces_neighbours(x: Operand, axes: list[int]) -> bool:
    """Whether one of the axes is the one along which elements lie next to each other."""
    strides = x.strides
    if strides is None or len(strides) != len(x.shape):
        return len(x.shape) - 1 in axes
    long = [i for i, n in enumerate(x.shape) if n > 1]
    return bool(long) and min(long, key=lambda i: (strides[i], -i)) in axes


def lines(place: int) -> Measure:
    """Measures sorts, scans and selections by (rows, elements of a row, bytes of an element).

    Along an axis whose elements are not adjacent they are a separate class: a scan then goes step by step.
    """

    def measure(call: Call) -> Operation | None:
        x = call.tensor(0)
        if x is None or not x.elements:
            return None
        axes = _axes(call.value(place), len(x.shape)) if place else []
        axis = axes[0] if axes else len(x.shape) - 1
        length = x.shape[axis] if x.shape else 1
        moved = float(2 * x.elements * x.each)
        count = x.elements // max(1, length)
        table = call.short + (".outer" if math.prod(x.shape[axis + 1 :]) > 1 else "")
        return Operation("elementwise", (count, length, x.each), 0.0, moved, table)

    return measure


def read_all(call: Call) -> Operation | None:
    """The work of reading all of the first tensor, keyed by (elements, bytes)."""
    x = call.tensor(0)
    if x is None or not x.elements:
        return None
    shape = (x.elements, x.touched)
    return Operation("elementwise", shape, 0.0, float(x.touched), call.short)


def loss_forward(call: Call) -> Operation | None:
    """The work of a loss: one element of each row is read."""
    x = call.tensor(0)
    if x is None or not x.elements or not x.shape:
        return None
    count = x.elements // x.shape[-1]
    return Operation("elementwise", (count,), 0.0, 64.0 * count, call.short)


def loss_backward(call: Call) -> Operation | None:
    """The work of a loss's gradient: all of it is cleared, and one element of each row is set."""
    x = call.tensor(1)
    if x is None or not x.elements or not x.shape:
        return None
    count, length = x.elements // x.shape[-1], x.shape[-1] * x.each
    return Operation("elementwise", (count, length), 0.0, float(count * length), call.short)


def window(place: int) -> Measure:
    """Measures pooling and resizing by (elements of the argument at `place`, bytes moved)."""

    def measure(call: Call) -> Operation | None:
        images = [t for t in call.tensors if len(t.shape) == 4 and t.each < 8 and t.elements]
        x = call.tensor(place)
        if x is None or not images:
            return None
        last = x.strides is not None and len(x.strides) == 4 and x.strides[1] == 1
        moved = float(sum(t.touched for t in images) + x.elements * x.each)
        table = call.short + (".last" if last else "")
        return Operation("elementwise", (x.elements, round(moved)), 0.0, moved, table)

    return measure
