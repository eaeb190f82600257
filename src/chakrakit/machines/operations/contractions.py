"""Products, attention and convolutions: what a profile keys them by, and their FLOPs and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from chakrakit.machines.operations.calls import Call, Operand
from chakrakit.machines.operations.operation import Operation
from chakrakit.operators import dtype_name

_TENSOR_CORES = re.compile("tf32|s1688|tensorop|nvjet_sm90_s", re.IGNORECASE)
"""Kernels of single-precision products that run on tensor cores; the graph alone does not say."""


def gemm_operation(m: int, n: int, k: int, each: int = 2) -> Operation:
    """M×K times K×N. Sizes that are no multiple of 8 leave the fast kernels, so they are a class apart."""
    odd = n % 8 or k % 8
    flops, moved = 2.0 * m * n * k, float(each) * (m * k + k * n + m * n)
    return Operation("gemm_odd" if odd else "gemm", (m, n, k), flops, moved)


def _precision(call: Call, operand: Operand) -> str:
    """`` for 16 bits, else the type; what kernels' names say of single precision is believed."""
    if operand.each == 2:
        return ""
    if dtype_name(operand.dtype) != "fp32":
        return f".{operand.each * 8}"
    return ".tf32" if any(_TENSOR_CORES.search(k) for k in call.kernels) else ".fp32"


def _layout(operand: Operand) -> str:
    """`t` where the second to last dimension is the one that lies together in memory."""
    strides = operand.strides
    if strides is None or len(strides) < 2 or operand.shape[-1] == 1 or operand.shape[-2] == 1:
        return "n"
    return "t" if strides[-2] == 1 and strides[-1] != 1 else "n"


def _leading(operand: Operand) -> int:
    """The distance between rows (or columns); kernels for aligned memory need a multiple of 8."""
    strides = operand.strides
    if strides is None or len(strides) < 2:
        return operand.shape[-1]
    steps = [s for s, n in zip(strides[-2:], operand.shape[-2:], strict=True) if n > 1 and s != 1]
    return steps[0] if len(steps) == 1 else operand.shape[-1]


def _alignment(a: Operand, b: Operand, columns: int) -> str:
    """The class by how far apart rows lie: kernels load 16 bytes at a time, or fewer where they must."""
    apart = [_leading(a), _leading(b), *([columns] if columns > 1 else [])]
    together = min(n & -n for n in apart if n > 0) * a.each
    if together >= 16:
        return "gemm"
    return "gemm_odd.even" if together >= 4 and a.each == 2 else "gemm_odd"


def product(first: int) -> Callable[[Call], Operation | None]:
    """A product whose two matrices are the inputs from `first` on; a batch is (batch, m, n, k)."""

    def make(call: Call) -> Operation | None:
        a, b = call.tensor(first), call.tensor(first + 1)
        if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2 or not a.elements:
            return None
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        batch = math.prod(a.shape[:-2])
        whole = gemm_operation(m, n, k, a.each)
        tail = f"{_precision(call, a)}.{_layout(a)}{_layout(b)}"
        if len(a.shape) == 2:
            return whole._replace(table=_alignment(a, b, n) + tail)
        return Operation(
            whole.kind, (batch, m, n, k), batch * whole.flops, batch * whole.bytes, "bmm" + tail
        )

    return make


def grouped(call: Call) -> Operation | None:
    """Products of runs of rows with a matrix each, or of runs of columns: (rows, n, k, groups)."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not a.elements or not b.elements:
        return None
    groups = max((t.shape[0] for t in (a, b) if len(t.shape) == 3), default=0)
    if not groups:
        ends = call.tensor(2)
        groups = ends.elements if ends is not None else 1
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        moved = a.touched + b.touched + groups * m * n * a.each
        return Operation("gemm", (k, n, m, groups), 2.0 * m * k * n, float(moved), "grouped.weight")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    moved = a.touched + b.touched + m * n * a.each
    return Operation("gemm", (m, n, k, groups), 2.0 * m * k * n, float(moved), "grouped")


_BACKENDS = re.compile(r"_(?:scaled_dot_product_)?(flash|efficient|cudnn)_attention(_\w+)?$")
_FLAGS = {
    ("flash", True, False): (7, 8, -1), ("flash", True, True): (10, 11, -1),
    ("flash", False, False): (3, 4, -1), ("flash", False, True): (10, 11, -1),
    ("efficient", True, False): (8, 9, 3), ("efficient", True, True): (11, 14, 4),
    ("efficient", False, False): (5, 6, 3), ("efficient", False, True): (9, 11, 4),
    ("cudnn", True, False): (9, 10, 3), ("cudnn", True, True): (13, 14, 8),
    ("cudnn", False, False): (5, 6, 3), ("cudnn", False, True): (13, 14, 8),
}  # fmt: skip
"""Where dropout, causality and the mask are among the arguments: by backend, whether it is the inner
operator (`_flash_attention_forward`), and whether it is the backward pass."""


def is_attention(short: str) -> bool:
    """Whether an operator is a fused attention."""
    return _BACKENDS.search(short) is not None


def attention(call: Call) -> Operation | None:
    """(batch × heads, queries, keys, head size); one query over a cache counts heads of the cache."""
    found = _BACKENDS.search(call.short)
    assert found is not None
    backend, inner = found[1], "scaled_dot_product" not in call.short
    backward = call.short.endswith("backward")
    query, key, value = (call.tensor(i + backward) for i in range(3))
    if query is None or key is None or value is None or len(query.shape) != 4 != len(key.shape):
        return None
    rows = 1 if inner and backend != "cudnn" else 2
    batch, heads, own = query.shape[0], query.shape[3 - rows], key.shape[3 - rows]
    queries, keys, head = query.shape[rows], key.shape[rows], query.shape[3]
    drop, causal, mask = _FLAGS[backend, inner, backward]
    square = causal >= 0 and call.value(causal) in (True, 1)
    masked = mask >= 0 and call.tensor(mask) is not None
    dropped = isinstance(p := call.value(drop), (int, float)) and not isinstance(p, bool) and p > 0
    flops = (5.0 if backward else 2.0) * batch * heads * queries * keys * (head + value.shape[3])
    moved = (
        query.touched + key.touched + value.touched + batch * heads * queries * head * query.each
    )
    kind = "attention_backward" if backward else "attention"
    table = f"{kind}.{backend}" + ".fp32" * (query.each == 4)
    table += (
        ".causal" * square + ".masked" * masked + ".dropout" * dropped + ".grouped" * (own != heads)
    )
    if queries == 1 and not backward:
        table = f"decode.{backend}" + ".masked" * masked
        shape = (batch * own, heads // max(1, own), keys, head)
        return Operation(kind, shape, flops, float(moved), table)
    size = (batch * heads, queries, keys, head)
    return Operation(kind, size, flops / (2 if square else 1), float(moved * (1 + backward)), table)


def _ints(value: Any) -> list[int]:
    return [v for v in value if isinstance(v, int)] if isinstance(value, list) else []


def convolution(
    kind: str, image: int, stride: int, group: int
) -> Callable[[Call], Operation | None]:
    """(batch, channels in, size, channels out, kernel size, stride); weight after the image."""

    def make(call: Call) -> Operation | None:
        x, w = _image(call.tensor(image)), _image(call.tensor(image + 1))
        if x is None or w is None or not x.elements:
            return None
        step = max(_ints(call.value(stride)) or [_guess(call, x)]) or 1
        groups = call.value(group)
        groups = groups if isinstance(groups, int) and groups > 0 else 1
        return _convolution(kind, call, x, w, step, groups)

    return make


def _image(operand: Operand | None) -> Operand | None:
    """Four dimensions; a line is an image of one row."""
    if operand is None or len(operand.shape) == 4:
        return operand
    if len(operand.shape) != 3:
        return None
    batch, channels, length = operand.shape
    strides = operand.strides
    wide = (*strides[:2], 1, *strides[2:]) if strides is not None else None
    return operand._replace(shape=(batch, channels, 1, length), strides=wide)


def _guess(call: Call, x: Operand) -> int:
    """The stride, from the result where the arguments do not tell."""
    out = call.outputs[0].shape if call.outputs else x.shape
    return max(1, round(x.shape[2] / max(1, out[2]))) if len(out) == 4 else 1


def _convolution(
    kind: str, call: Call, x: Operand, w: Operand, step: int, groups: int
) -> Operation:
    batch, c, height, width = x.shape
    line = height == 1 < width
    k, r = w.shape[0], w.shape[3] if line else w.shape[2]
    backward = kind == "conv_backward"
    wanted = next((v for v in call.values if _is_flags(v)), [True, True, False])
    passes = sum(wanted[:2]) if backward else 1
    pixels = batch * (-(-width // step) if line else (height // step) * (width // step))
    flops = 2.0 * passes * pixels * k * w.shape[1] * w.shape[2] * w.shape[3]
    moved = float(passes * x.each * (x.elements + pixels * k))
    channels_last = x.strides is None or x.strides[1] == 1
    name = kind if channels_last else f"{kind}_nchw"
    table = name + (".fp32" if x.each == 4 else "") + (".depthwise" if groups > 1 else "")
    table += (".line" if line else "") + (".weight" if backward and passes == 1 else "")
    return Operation(name, (batch, c, max(height, width), k, r, step), flops, moved, table)


def transposed_convolution(call: Call) -> Operation | None:
    """The same shape; every element of the image spreads over a window of the result."""
    x, w = _image(call.tensor(0)), _image(call.tensor(1))
    if x is None or w is None or not x.elements:
        return None
    step = (_ints(call.value(4)) or [1])[0] or 1
    batch, c, height, width = x.shape
    k, r = w.shape[1], w.shape[2]
    flops = 2.0 * x.elements * k * r * w.shape[3]
    moved = float(x.each * (x.elements + batch * height * width * step * step * k))
    table = "conv_transpose" + (".fp32" if x.each == 4 else "")
    return Operation("conv", (batch, c, height, k, r, step), flops, moved, table)


def recurrent(passes: int, after: int) -> Callable[[Call], Operation | None]:
    """Recurrent layers of cuDNN: (steps of all layers, batch, hidden size, weights per layer).

    All weights are in one buffer, each used once per step and pass; `after` is where the mode stands.
    """

    def make(call: Call) -> Operation | None:
        x, weights, hidden = call.tensor(0), call.tensor(3), call.value(after + 1)
        layers, both = call.value(after + 3), call.value(after + 7)
        if x is None or weights is None or len(x.shape) != 3 or not isinstance(hidden, int):
            return None
        count = max(1, layers if isinstance(layers, int) else 1) * (2 if both is True else 1)
        steps, batch = x.shape[:2] if call.value(after + 4) is not True else x.shape[1::-1]
        flops = 2.0 * passes * steps * batch * weights.elements
        moved = float(passes * (weights.touched + steps * batch * hidden * count * x.each))
        shape = (steps * count, batch, hidden, weights.elements // count)
        return Operation("gemm", shape, flops, moved, f"{call.short}.{x.each * 8}")

    return make


def _is_flags(value: Any) -> bool:
    return (
        isinstance(value, Sequence) and len(value) == 3 and all(v in (True, False) for v in value)
    )
