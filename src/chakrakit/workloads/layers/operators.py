"""Operators: each states its shapes; FLOPs, bytes, what is kept and backward follow.

A multiply-add is two FLOPs. `flops` counts matrix work (matmuls and attention), the figure that closed
forms and utilization speak of; `vector_ops` counts everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod

from chakrakit.operators import LAYER_NORM, NORM, SOFTMAX, PerElement, element_bytes, product_flops
from chakrakit.trace.model import CollectiveType
from chakrakit.workloads.layers.sharding import BYTES, Dim, Tensor
from chakrakit.workloads.layers.tape import BlockNode, Grads, Tape, Weight

REPLICABLE = ("tp", "cp")
"""Axes over which the same tokens' work could be done twice; data ranks have tokens of their own."""


def matmul(
    tape: Tape,
    name: str,
    x: Tensor,
    weight: Weight,
    bias: Weight | None = None,
    routed: bool = False,
) -> Tensor:
    """X [batch…, m…, k] × weight [batch…, k, n]; leading dimensions of the weight are batch."""
    x = tape.reshard(x, _operand(x, weight), name, routed)
    *batch, inner, outer = weight.tensor.dims
    rows = x.dims[len(batch) : -1]
    out = Tensor((*x.dims[:-1], outer), tape.settings.dtype, x.partial | frozenset(inner.axes))
    node = _matmul_node(tape, name, x, weight, out, routed)
    sizes = [_product(part, tape) for part in (batch, rows, [inner], [outer])]
    node.shapes = _shapes(*sizes)
    out = replace(out, node=tape.emit(node, [x]))
    freed = tape.keep(out.node, x, dtype="" if weight.wide else tape.settings.matmul_dtype)
    learned = [w for w in (weight, bias) if w]
    for parameter in learned:
        _owe(parameter, rows)

    def back(grad: Tensor) -> Grads:
        count, m, k, n = sizes
        again = tape.regather(x, name)
        grads: Grads = []
        if x.needs_grad:
            dx = node.again(name=f"{name}.dx", shapes=_shapes(count, m, n, k))
            place = tape.emit_backward(dx, [grad])
            grads = [(x, Tensor(x.dims, x.dtype, frozenset(outer.axes), place))]
        dw = node.again(name=f"{name}.dw", weight=True, free=freed, shapes=_shapes(count, k, m, n))
        dw.deps = [again] if again >= 0 else []
        before = [] if tape.settings.fused_weight_grads else [g for _, g in grads]
        place = tape.emit_backward(dw, [grad, *before], [x])
        if before:
            grads = [(x, replace(g, node=place)) for g in before]
        if tape.settings.adds_weight_grads:
            place = _add_to_gradient(tape, weight, place)
        for parameter in learned:
            parameter.grad_node = place
        return grads

    return tape.record(out, back)


def _add_to_gradient(tape: Tape, weight: Weight, product: int) -> int:
    """A kernel that adds a product to the gradient of earlier micro-batches: reads both, writes one."""
    settings, count = tape.settings, weight.tensor.elements(tape.degrees)
    node = BlockNode(
        f"{tape.backward[product].name}.add",
        "vector",
        vector_ops=count,
        bytes=count * (BYTES[settings.dtype] + 2 * BYTES[settings.grad_dtype or settings.dtype]),
        dtype=settings.dtype,
        weight=True,
        deps=[product],
    )
    return tape.emit_backward(node)


def _matmul_node(
    tape: Tape, name: str, x: Tensor, weight: Weight, out: Tensor, routed: bool
) -> BlockNode:
    dims = (*out.dims, weight.tensor.dims[-2])
    kind = _product_type(tape, weight)
    touched = tape.settings.touched if weight.expert else 1
    moved = _read_bytes(tape, x, weight, kind, touched) + out.bytes(tape.degrees)
    return BlockNode(
        name,
        "matmul",
        product_flops(_product(dims, tape), 1, 1),
        bytes=moved,
        dtype=kind,
        routed=routed,
        replicas=_replicas(dims, tape, routed),
    )


def _product_type(tape: Tape, weight: Weight) -> str:
    """The element type in which a product is computed."""
    if weight.format:
        return weight.format.activations or tape.settings.dtype
    wide = weight.wide and tape.settings.training
    return (not wide and tape.settings.matmul_dtype) or tape.settings.dtype


def _read_bytes(tape: Tape, x: Tensor, weight: Weight, kind: str, touched: float) -> int:
    """Bytes of both operands; a weight that has a format is read as it is kept."""
    if weight.format is None:
        rows = x.elements(tape.degrees) + round(weight.tensor.elements(tape.degrees) * touched)
        return ceil(rows * element_bytes(kind))
    operand = ceil(x.elements(tape.degrees) * element_bytes(kind))
    return operand + round(weight.bytes(tape.degrees) * touched)


def _shapes(count: int, m: int, k: int, n: int) -> str:
    """[[m, k], [k, n]], with the batch before where there is one."""
    lead = f"{count}," if count > 1 else ""
    return f"[[{lead}{m},{k}],[{lead}{k},{n}]]"


def _operand(x: Tensor, weight: Weight) -> Tensor:
    """How a matmul wants its left side cut: the contraction as the weight's, nothing else by its axes."""
    *batch, inner, _ = weight.tensor.dims
    weight_axes = {a for d in weight.tensor.dims for a in d.axes}
    rows = [
        Dim(d.size, tuple(a for a in d.axes if a not in weight_axes))
        for d in x.dims[len(batch) : -1]
    ]
    lead = [Dim(d.size, b.axes) for d, b in zip(x.dims, batch, strict=False)]
    return Tensor((*lead, *rows, Dim(x.dims[-1].size, inner.axes)), x.dtype)


def _owe(weight: Weight, rows: Sequence[Dim]) -> None:
    """The gradient sums over rows, so it is partial over the axes that cut them."""
    weight.partial |= frozenset(a for d in rows for a in d.axes)


def _product(dims: Sequence[Dim], tape: Tape) -> int:
    count = prod((d.local(tape.degrees) for d in dims), start=Fraction(1))
    return -(-count.numerator // count.denominator)


def _replicas(dims: Sequence[Dim], tape: Tape, routed: bool) -> int:
    # Routing mixes the tokens of cp's ranks, and of tp's where experts are folded over them.
    mixed = {"cp", "tp"} if tape.settings.folds_experts else {"cp"}
    cut = {a for d in dims for a in d.axes} | (mixed if routed else set())
    return prod(tape.degrees.get(a, 1) for a in REPLICABLE if a not in cut)


def vector(
    tape: Tape,
    name: str,
    inputs: Sequence[Tensor],
    out: Tensor | None = None,
    *,
    ops: int | PerElement = 1,
    keeps: Sequence[Tensor] = (),
    mask: bool = False,
    weights: Sequence[Weight] = (),
    routed: bool = False,
    linear: bool = False,
) -> Tensor:
    """An element by element operation; inputs of the same size are brought to the cutting of the first.

    `ops` are operations per element; of a plain number the gradient has twice as many. `out` is the result
    where it is not like the first input. Gradients are like the inputs. `mask` keeps one byte per element
    (dropout). Sums still open are closed first, unless the operation is `linear`: then its result is as
    open as its first input.
    """
    each = ops if isinstance(ops, PerElement) else PerElement(ops, 2 * ops)
    first = inputs[0] if linear else _whole(inputs[0])
    alike = [_like(tape, t, first, name) for t in inputs]
    result = Tensor((out or first).dims, (out or first).dtype, (out or first).partial)
    moved = sum(t.bytes(tape.degrees) for t in (*alike, result))
    node = BlockNode(
        name,
        "vector",
        vector_ops=each.forward * result.elements(tape.degrees),
        bytes=moved,
        dtype=result.dtype,
        routed=routed,
    )
    place = tape.emit(node, alike)
    freed = tape.keep(place, *keeps)
    if mask and tape.settings.training:
        freed += result.elements(tape.degrees)
        node.alloc += result.elements(tape.degrees)
    result = replace(result, node=place)
    for weight in weights:
        _owe(weight, first.dims[:-1])

    def back(grad: Tensor) -> Grads:
        count = each.backward * result.elements(tape.degrees)
        again = node.again(name=f"{name}.dx", vector_ops=count, free=freed)
        dx = tape.emit_backward(again, [grad], keeps)
        for weight in weights:
            weight.grad_node = dx
        return [(t, Tensor(t.dims, t.dtype, node=dx)) for t in alike]

    return tape.record(result, back)


def _whole(x: Tensor) -> Tensor:
    return Tensor(x.dims, x.dtype)


def _like(tape: Tape, x: Tensor, first: Tensor, name: str) -> Tensor:
    if [d.size for d in x.dims] != [d.size for d in first.dims]:
        return x
    return tape.reshard(x, Tensor(first.dims, x.dtype, first.partial), name)


def add(tape: Tape, name: str, x: Tensor, y: Tensor) -> Tensor:
    """X + y; gradients pass through as they are."""
    y = tape.reshard(y, _whole(x), name)
    out = Tensor(x.dims, x.dtype)
    moved = 3 * out.bytes(tape.degrees)
    node = BlockNode(
        name, "vector", vector_ops=out.elements(tape.degrees), bytes=moved, dtype=x.dtype
    )
    out = replace(out, node=tape.emit(node, [x, y]))
    return tape.record(out, lambda grad: [(x, grad), (y, grad)])


def dropout(tape: Tape, name: str, x: Tensor, like: Tensor) -> Tensor:
    """Dropout of x once it is cut like the tensor it will be added to."""
    x = tape.reshard(x, _whole(like), name)
    return vector(tape, name, [x], ops=2, mask=True)


def norm(tape: Tape, name: str, x: Tensor, kind: str = "rms", learned: str = "full") -> Tensor:
    """RMS or layer norm over the last dimension; `learned` as a decoder's `norm_weights`."""
    size = Dim(x.dims[-1].size)
    weights = []
    if learned != "none":
        weights.append(tape.weight(f"{name}.weight", size, kind="vector"))
    ops = LAYER_NORM if kind == "layer" else NORM
    if kind == "layer" and learned == "full":
        weights.append(tape.weight(f"{name}.bias", size, kind="vector"))
    return vector(tape, name, [x], ops=ops, keeps=[x], weights=weights)


def lookup(tape: Tape, name: str, table: Weight, rows: Sequence[Dim], pooling: int = 1) -> Tensor:
    """Rows of a table, summed in groups of `pooling`. A table cut by rows gives partial sums."""
    height, width = table.tensor.dims
    out = Tensor((*rows, width), tape.settings.dtype, frozenset(height.axes))
    size = out.bytes(tape.degrees)
    node = BlockNode(
        name,
        "lookup",
        vector_ops=pooling * out.elements(tape.degrees),
        bytes=(pooling + 1) * size,
        dtype=out.dtype,
    )
    out = replace(out, node=tape.emit(node, []))
    _owe(table, rows)

    def back(grad: Tensor) -> Grads:
        scatter = node.again(name=f"{name}.dw", weight=True)
        table.grad_node = tape.emit_backward(scatter, [grad])
        return []

    return tape.record(out, back)


def cross_entropy(tape: Tape, name: str, logits: Tensor) -> Tensor:
    """The loss of logits whose last dimension may be cut: three sums of one number per token."""
    saved = Tensor(logits.dims, "fp32", node=logits.node)
    per_token = Tensor(logits.dims[:-1], "fp32")
    size = per_token.bytes(tape.degrees)
    node = BlockNode(
        name,
        "vector",
        vector_ops=SOFTMAX.forward * logits.elements(tape.degrees),
        bytes=logits.bytes(tape.degrees) + saved.bytes(tape.degrees),
        dtype="fp32",
    )
    place = tape.emit(node, [logits])
    freed = tape.keep(place, saved)
    for axis in logits.dims[-1].axes:
        for statistic in ("max", "target", "sum"):
            if tape.degrees.get(axis, 1) > 1:
                place = _reduce_tokens(tape, f"{name}.{statistic}", axis, size, place)
    out = Tensor(logits.dims[:-1], "fp32", node=place)

    def back(grad: Tensor) -> Grads:
        count = SOFTMAX.backward * logits.elements(tape.degrees)
        again = node.again(name=f"{name}.dx", vector_ops=count, free=freed)
        dx = tape.emit_backward(again, [grad], [saved])
        return [(logits, Tensor(logits.dims, logits.dtype, node=dx))]

    return tape.record(out, back)


def _reduce_tokens(tape: Tape, name: str, axis: str, size: int, after: int) -> int:
    node = BlockNode(
        f"{name}.all_reduce_{axis}",
        "collective",
        comm=CollectiveType.ALL_REDUCE,
        comm_size=size,
        out_size=size,
        role=axis,
        dtype="fp32",
        deps=[after],
    )
    tape.forward.append(node)
    return len(tape.forward) - 1
