"""Operators that pick or place rows by index: the bytes they really touch, not those of the table."""

from __future__ import annotations

import math

from chakrakit.operators.calls import Call, Operand, Operation


def _operation(
    call: Call, picked: int, width: int, table: int, moved: float, tail: str = ""
) -> Operation:
    """The operation, keyed by (rows picked, bytes of a row, bytes of the table)."""
    shape = (max(1, picked), max(1, width), max(1, table))
    return Operation("elementwise", shape, 0.0, max(1.0, moved), call.short + tail)


def _row(table: Operand, axis: int) -> int:
    """Bytes of what one index picks: everything but the axis; what lies after it, if it is not the first."""
    if not table.shape:
        return table.each
    return math.prod(table.shape[axis % len(table.shape) + 1 :]) * table.each


def selection(call: Call) -> Operation | None:
    """The work of `index_select` and `gather`, which are called with (table, axis, index)."""
    table, index = call.tensor(0), call.tensor(2)
    if table is None or index is None:
        return None
    if call.short.startswith("gather"):
        picked = index.touched // max(1, index.each)
        width = table.each * (index.elements // max(1, picked))
        moved = 2.0 * index.elements * table.each + index.touched
        return _operation(call, picked, width, table.touched, moved)
    axis = call.value(1) if isinstance(call.value(1), int) else 0
    width = table.elements * table.each // max(1, table.shape[axis] if table.shape else 1)
    moved = 2.0 * index.elements * width + index.touched
    return _operation(call, index.elements, width, table.touched, moved)


def lookup(call: Call) -> Operation | None:
    """The work of `embedding`, which is called with (weight, indices)."""
    weight, index = call.tensor(0), call.tensor(1)
    if weight is None or index is None or len(weight.shape) != 2:
        return None
    width = weight.shape[1] * weight.each
    moved = 2.0 * index.elements * width + index.touched
    return _operation(call, index.elements, width, weight.touched, moved)


def lookup_backward(call: Call) -> Operation | None:
    """The work of `embedding_dense_backward` (gradient, indices, rows); the table is cleared first."""
    grad, index, count = call.tensor(0), call.tensor(1), call.value(2)
    if grad is None or index is None or not grad.shape or not isinstance(count, int):
        return None
    width = grad.shape[-1] * grad.each
    moved = float(count * width + 3 * grad.touched + 4 * index.touched)
    return _operation(call, index.elements, width, count * width, moved)


def bags(call: Call) -> Operation | None:
    """The work of `_embedding_bag` (weight, indices, offsets), by (rows picked, bytes of a row, bags)."""
    weight, index, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    if weight is None or index is None or offsets is None or len(weight.shape) != 2:
        return None
    width = weight.shape[1] * weight.each
    picked = min(index.elements * width, 4 * weight.touched)
    moved = float(picked + offsets.elements * width + index.touched)
    return _operation(call, index.elements, width, offsets.elements, moved)


def bags_backward(call: Call) -> Operation | None:
    """The work of `_embedding_bag_dense_backward` (gradient, indices, offset of each index, …, rows).

    `_embedding_bag_backward` stands for it where a trace has the outer call; of sparse gradients no table is
    cleared.
    """
    grad, index = call.tensor(0), call.tensor(1)
    if grad is None or index is None or not grad.shape:
        return None
    count = next((v for v in call.values if isinstance(v, int) and not isinstance(v, bool)), 0)
    if call.short == "_embedding_bag_backward" and call.value(9) is True:
        count = 0
    width = grad.shape[-1] * grad.each
    moved = float(count * width + 2 * index.elements * width + 4 * index.touched)
    operation = _operation(call, index.elements, width, count * width, moved)
    return operation._replace(table="_embedding_bag_dense_backward")


def advanced(call: Call) -> Operation | None:
    """The work of `index` (table, list of indices); each result is one element of the table."""
    table, indices = call.tensor(0), call.listed(1)
    if table is None or not indices:
        return None
    if indices[0].each == 1:
        return _operation(call, indices[0].elements, table.each, table.touched,
                          indices[0].touched + 2.0 * table.touched, ".mask")  # fmt: skip
    count, width = _picked(call, table, indices)
    moved = 2.0 * count * width + sum(i.touched for i in indices)
    return _operation(call, count, width, table.touched, moved)


def _picked(call: Call, table: Operand, indices: list[Operand]) -> tuple[int, int]:
    """How many runs are picked and the bytes of each; leading dimensions without index repeat them."""
    index = max(i.elements for i in indices)
    if len(indices) > 1:
        before = math.prod(table.shape[: len(table.shape) - len(indices)])
        return (call.outputs[0].elements if call.outputs else index * before), table.each
    return index, table.elements * table.each // max(1, table.shape[0] if table.shape else 1)


def placement(call: Call) -> Operation | None:
    """The work of `index_add`, `index_copy`, `scatter`, … (table, axis, index, source)."""
    table, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    if table is None or index is None:
        return None
    size = source.touched if source is not None else index.elements * table.each
    width = (
        table.each if call.short.startswith("scatter") else max(1, size // max(1, index.elements))
    )
    moved = float(index.touched + size + 2 * index.elements * width)
    return _operation(call, index.elements, width, table.touched, moved)


def put(call: Call) -> Operation | None:
    """The work of `index_put` (table, indices, values, whether to add); adding sorts the indices first."""
    table, indices, source = call.tensor(0), call.listed(1), call.tensor(2)
    if table is None or not indices:
        return None
    count = max(i.elements for i in indices)
    size = source.touched if source is not None else count * table.each
    summed = call.value(3) in (True, 1)
    tail = ".sum" if summed else ".mask" if indices[0].each == 1 else ""
    width = max(table.each, (source.elements if source else count) * table.each // max(1, count))
    moved = float(sum(i.touched for i in indices) * (8 if summed else 1) + 3 * size)
    return _operation(call, count, width, table.touched, moved, tail)
