"""Elementwise operators, copies, concatenations, lists of tensors and fused kernels: bytes decide."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chakrakit.operators.calls import Call, Measure, Operand, Operation
from chakrakit.operators.products import broadcast_elements

STREAMS = ("add", "mul", "copy", "sub", "div")
"""Operators that only stream through memory; an unmeasured operator is taken to be like these."""
SMALLEST = 1
"""Bytes of an operation that is known to move some, but not how many."""
_FLAGS = frozenset(
    ("eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "isfinite", "logical_not", "logical_and",
     "logical_or", "isin")
)  # fmt: skip
"""Operators whose result has one byte per element whatever they compare."""
_FILLS = frozenset(("fill", "zero", "uniform", "normal", "random", "bernoulli"))


def streamed(moved: int) -> Operation:
    """The work of moving so many bytes through memory, with nothing computed."""
    size = max(SMALLEST, moved)
    return Operation("elementwise", (size,), 0.0, float(size))


def elementwise(call: Call) -> Operation | None:
    """The work of an elementwise operator, keyed by (elements, bytes) and, if strided, adjacent bytes."""
    tensors = call.tensors
    if not tensors:
        return None
    elements = broadcast_elements([t.shape for t in tensors])
    wide = [t for t in tensors if t.elements * 2 > elements] or tensors
    each = 1 if call.short in _FLAGS else max(t.each for t in wide)
    read = tensors[1:] if call.short in _FILLS else tensors
    written_bytes = tensors[0].touched if call.in_place or call.short in _FILLS else elements * each
    moved = sum(t.touched for t in read) + written_bytes
    name = call.short
    if any(1 < t.elements < elements for t in tensors):
        name += ".broadcast"
    elif len({t.each for t in tensors if t.elements > 1}) > 1:
        name += ".mixed"
    return _sized(name, elements, moved, wide)


def unlisted(call: Call) -> Operation | None:
    """The work of an operator that the table does not name: elementwise, but at least all that it writes."""
    operation = elementwise(call)
    written_bytes = sum(t.touched for t in call.outputs)
    if operation is None or operation.bytes >= written_bytes:
        return operation
    elements, moved = sum(t.elements for t in call.outputs), written_bytes
    moved += sum(t.touched for t in call.tensors)
    return Operation("elementwise", (elements, moved), 0.0, float(moved), call.short)


def _sized(name: str, elements: int, moved: int, operands: Sequence[Operand]) -> Operation:
    operands = [t for t in operands if t.elements > 1]
    base = Operation("elementwise", (elements, moved), 0.0, float(max(SMALLEST, moved)), name)
    if not elements:
        return base._replace(shape=(1, 1))
    same = len({t.strides for t in operands}) < 2 and all(t.dense for t in operands)
    if same or all(t.contiguous for t in operands):
        return base
    run = min(t.run for t in operands)
    return base._replace(shape=(elements, moved, run), table=f"{name}.strided")


def copy(call: Call) -> Operation | None:
    """The work of a copy from the second tensor to the first."""
    to, source = call.tensor(0), call.tensor(1)
    if to is None:
        return None
    if source is None:
        return Operation("elementwise", (to.touched,), 0.0, float(to.touched), "copy.host")
    return _copied(to, source)


def _copied(to: Operand, source: Operand) -> Operation:
    name = "copy" if to.dtype == source.dtype else "copy.cast"
    return _sized(name, to.elements, to.touched + source.touched, [to, source])


def duplicate(call: Call) -> Operation | None:
    """The work of a copy of the first tensor to a new one, which is recorded as its result or not at all."""
    source = call.tensor(0)
    return _copied(call.outputs[0], source) if source and call.outputs else elementwise(call)


def filled_with(call: Call) -> Operation | None:
    """The work of an operator that sets all of a new tensor."""
    written = sum(t.touched for t in call.outputs)
    if not written:
        return elementwise(call)
    return _sized("fill", sum(t.elements for t in call.outputs), written, call.outputs)


def scattered_back(call: Call) -> Operation | None:
    """The work of the gradient of a part: the whole is set to zero, and the part is copied into it."""
    part = call.tensor(0)
    if part is None or not call.outputs:
        return elementwise(call)
    whole = call.outputs[0]
    moved = whole.touched + 2 * part.touched
    return Operation("elementwise", (whole.elements, moved), 0.0, float(moved), "copy")


def like(name: str) -> Measure:
    """Measures an elementwise operator by the table of another that runs the same kernel."""

    def measure(call: Call) -> Operation | None:
        operation = elementwise(call)
        if operation is None:
            return None
        return operation._replace(table=name + operation.table.removeprefix(call.short))

    return measure


def concatenation(call: Call) -> Operation | None:
    """The work of a concatenation, keyed by (pieces, bytes, adjacent bytes of a piece)."""
    pieces = [p for p in call.listed(0) if p.elements]
    if not pieces:
        return None
    axis = call.value(1)
    axis = axis if isinstance(axis, int) and not isinstance(axis, bool) else 0
    first = pieces[0].shape
    after = first[axis % len(first) :] if first else ()
    run = min(math.prod(after) * pieces[0].each, min(p.run for p in pieces))
    moved = 2 * sum(p.touched for p in pieces)
    return Operation(
        "elementwise", (len(pieces), moved, max(1, run)), 0.0, float(moved), call.short
    )


_COSTLY = ("softmax", "cat", "dropout")
"""Operators inside a fused kernel that cost more than passing its bytes through: exponentials of every
element, a choice among sources, random numbers."""
_LISTS_WRITTEN = {"_fused_adam": 3, "_fused_adamw": 3, "_fused_sgd": 2, "_fused_adagrad": 2}


def of_lists(call: Call) -> Operation | None:
    """The work of an operator over lists of tensors, keyed by (tensors, elements, bytes)."""
    lists = [x for x in call.inputs if isinstance(x, list) and x]
    if not lists:
        return None
    sizes = [sum(t.touched for t in tensors) for tensors in lists]
    written_sizes = sizes[: _LISTS_WRITTEN.get(call.short, 1)]
    if call.short == "_fused_adam" or call.short == "_fused_adamw":
        written_sizes = [sizes[0], *sizes[2:4]]
    read = [] if call.short == "_foreach_zero" else sizes
    if call.short == "_foreach_norm":
        written_sizes = []
    moved = sum(read) + sum(written_sizes)
    kind = "adamw" if call.short == "_fused_adamw" else "elementwise"
    shape = (len(lists[0]), sum(t.elements for t in lists[0]), moved)
    return Operation(kind, shape, 0.0, float(max(SMALLEST, moved)), call.short)


def unknown(call: Call) -> Operation | None:
    """The work of an unknown operator: it touches each of its tensors once."""
    moved = sum(t.touched for t in (*call.tensors, *call.outputs))
    return streamed(moved) if moved else None


def of_products(call: Call) -> Operation | None:
    """The work of products that no profile has measured: only FLOPs and bytes are known."""
    moved = sum(t.touched for t in (*call.tensors, *call.outputs))
    return Operation("gemm", (), 0.0, float(moved), call.short) if moved else None


def fused(call: Call) -> Operation | None:
    """The work of a generated (Triton) kernel: its tensors' bytes, at most what its index space can reach.

    The plain arguments end with the sizes of the index space. Which tensors are both read and written
    (`in_out`) cannot be told, so each counts once.
    """
    if not call.tensors:
        return None
    sizes = [v for v in call.values if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    space = math.prod(sizes) if sizes else max(t.elements for t in call.tensors)
    moved = sum(min(t.touched, space * t.each) for t in call.tensors)
    shape = call.name.split("_", 2)[1] if call.name.startswith("triton_") else "poi"
    elements = min(space, max(t.elements for t in call.tensors))
    table = f"fused.{shape}" + next((f".{w}" for w in _COSTLY if f"_{w}" in call.name), "")
    return Operation("elementwise", (max(1, elements), max(1, moved)), 0.0, float(moved), table)
