"""Products, attention, convolutions and recurrent layers: what profiles key them by, FLOPs and bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from chakrakit.operators.calls import Call, Count, Measure, Operand, Operation
from chakrakit.operators.element_types import IEEE, PRODUCT_MARKS, dtype_name, is_complex, rate_name
from chakrakit.operators.formulas import (
    attention_flops,
    convolution_flops,
    convolution_size,
    product_flops,
    recurrent_flops,
    transposed_size,
)

_TENSOR_CORES = re.compile("tf32|s1688|tensorop|nvjet_sm90_s", re.IGNORECASE)
"""Kernels of single-precision products that run on tensor cores; the graph alone does not say."""


ALIGNED = 8
"""Elements of 16 bits in the 16 bytes that kernels of products load at a time; other widths are slower."""


def gemm_operation(m: int, n: int, k: int, each: int = 2) -> Operation:
    """The work of M×K times K×N; widths that are not aligned have a class of their own."""
    odd = n % ALIGNED or k % ALIGNED
    flops, moved = product_flops(m, n, k), float(each) * (m * k + k * n + m * n)
    return Operation("gemm_odd" if odd else "gemm", (m, n, k), float(flops), moved)


def _precision(call: Call, operand: Operand) -> str:
    """The suffix for the element type, empty for 16 bits.

    The trace, else the names of kernels tell `.tf32` from `.fp32`; else it is PyTorch's default.
    """
    if operand.each == 2:
        return ""
    if is_complex(operand.dtype):
        return PRODUCT_MARKS.get(rate_name(operand.dtype), "")
    name = dtype_name(operand.dtype)
    if name != "fp32":
        return PRODUCT_MARKS.get(name, f".{operand.each * 8}")
    rounds = call.computes_in == "tf32" or any(_TENSOR_CORES.search(k) for k in call.kernels)
    return ".tf32" if rounds else ".fp32"


def _unrounded(call: Call, operand: Operand) -> str:
    """The suffix of what cuDNN computes in fp32 where the program forbids TF32, its default."""
    return f".{IEEE}" if operand.each == 4 and call.computes_in == "fp32" else ""


def _layout(operand: Operand) -> str:
    """`t` (transposed) where elements are adjacent along the second to last dimension, else `n`."""
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


# --- products of two matrices -----------------------------------------------------------------------


def count_product(first: int) -> Count:
    """Counts a product of the arguments at `first` and after it; batches precede the last two dimensions."""

    def count(call: Call) -> int:
        a, b = call.tensor(first), call.tensor(first + 1)
        if a is None or b is None or not a.shape or not b.shape:
            return 0
        m = a.shape[-2] if len(a.shape) > 1 else 1
        n = b.shape[-1] if len(b.shape) > 1 else 1
        batch = broadcast_elements([a.shape[:-2], b.shape[:-2]])
        return product_flops(m, n, a.shape[-1], batch)

    return count


def broadcast_elements(shapes: Sequence[tuple[int, ...]]) -> int:
    """Elements of the shape that all of these expand to; of the largest where they do not fit."""
    length = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (length - len(s)) + s for s in shapes]
    columns = list(zip(*padded, strict=True))
    if any(len({*column} - {1}) > 1 for column in columns):
        return max(math.prod(s) for s in shapes)
    return math.prod(min(column) if 0 in column else max(column) for column in columns)


def product(first: int) -> Measure:
    """Measures a product of the arguments at `first` and after it; a batch is keyed by (batch, m, n, k)."""

    def measure(call: Call) -> Operation | None:
        a, b = call.tensor(first), call.tensor(first + 1)
        if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2 or not a.elements:
            return None
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        batch = math.prod(a.shape[:-2])
        whole = gemm_operation(m, n, k, a.each)
        tail = f"{_precision(call, a)}.{_layout(a)}{_layout(b)}"
        tail += ".complex" if is_complex(a.dtype) else ""
        if len(a.shape) == 2:
            return whole._replace(table=_alignment(a, b, n) + tail)
        return Operation(whole.kind, (batch, m, n, k), 0.0, batch * whole.bytes, "bmm" + tail)

    return measure


def count_linear(call: Call) -> int:
    """Counts a tensor of any number of dimensions times a weight of (outputs, inputs)."""
    x, weight = call.tensor(0), call.tensor(1)
    if x is None or weight is None or not x.shape or len(weight.shape) not in (1, 2):
        return 0
    outputs = weight.shape[0] if len(weight.shape) == 2 else 1
    return product_flops(math.prod(x.shape[:-1]), outputs, x.shape[-1])


def linear(call: Call) -> Operation | None:
    """The work of `linear`: that of the product it comes down to, with the weight transposed."""
    x, weight = call.tensor(0), call.tensor(1)
    if x is None or weight is None or not x.elements or not x.shape or len(weight.shape) != 2:
        return None
    rows = x._replace(shape=(math.prod(x.shape[:-1]), x.shape[-1]), strides=None)
    n, k = weight.shape
    strides = weight.strides or (k, 1)
    turned = weight._replace(shape=(k, n), strides=(strides[1], strides[0]))
    return product(0)(call._replace(inputs=[rows, turned]))


def by_vector(first: int) -> Measure:
    """Measures a matrix times a vector as the product of one row with the transposed matrix."""

    def measure(call: Call) -> Operation | None:
        a, b = call.tensor(first), call.tensor(first + 1)
        if a is None or b is None or not a.shape or len(b.shape) != 1 or not a.elements:
            return None
        m, k = a.shape[-2] if len(a.shape) > 1 else 1, a.shape[-1]
        whole = gemm_operation(1, m, k, a.each)
        return whole._replace(table=f"gemm{_precision(call, a)}.nt")

    return measure


def count_grouped(call: Call) -> int:
    """Counts a grouped product: runs of rows, columns or the inner dimension, each with its own matrix."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not all(len(t.shape) in (2, 3) for t in (a, b)):
        return 0
    both = len(a.shape) == len(b.shape) == 3
    return product_flops(a.shape[-2], b.shape[-1], a.shape[-1], a.shape[0] if both else 1)


def grouped(ends: int) -> Measure:
    """Measures a grouped product by (rows, n, k, groups); the argument at `ends` has the groups' last rows.

    Two matrices without a batch are cut along the inner dimension, as the gradient of weights is: that is
    a separate class, keyed by (k, n, m, groups).
    """

    def measure(call: Call) -> Operation | None:
        a, b = call.tensor(0), call.tensor(1)
        if a is None or b is None or not a.elements or not b.elements:
            return None
        if not all(len(t.shape) in (2, 3) for t in (a, b)):
            return None
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        groups = max((t.shape[0] for t in (a, b) if len(t.shape) == 3), default=0)
        if groups:
            rows = groups * m if len(a.shape) == len(b.shape) else m
            moved = a.touched + b.touched + rows * n * a.each
            return Operation("gemm", (rows, n, k, groups), 0.0, float(moved), "grouped")
        last = call.tensor(ends)
        groups = last.elements if last is not None else 1
        moved = a.touched + b.touched + groups * m * n * a.each
        return Operation("gemm", (k, n, m, groups), 0.0, float(moved), "grouped.weight")

    return measure


def count_listed(call: Call) -> int:
    """Counts the products of the matrices of two lists, pair by pair."""
    pairs = zip(call.listed(0), call.listed(1), strict=False)
    return sum(count_product(0)(Call(call.name, [a, b])) for a, b in pairs)


# --- attention --------------------------------------------------------------------------------------


class AttentionArguments(NamedTuple):
    """Where a fused attention has its arguments: dropout, causality, and the mask or -1."""

    backend: str
    dropout: int
    causal: int
    mask: int = -1
    by_rows: bool = False
    """Tensors are batch × sequence × heads × size; else heads come before the sequence."""
    backward: bool = False

    @property
    def rows(self) -> int:
        """The dimension that counts queries and keys."""
        return 1 if self.by_rows else 2

    def causes(self, call: Call) -> bool:
        """Whether scores of later keys are masked; `efficient` numbers its masks, 1 and 2 being causal."""
        return call.value(self.causal) in (True, 1, 2)

    def tensors(self, call: Call) -> tuple[Operand, Operand, Operand] | None:
        """Queries, keys and values; None where one is missing or does not have four dimensions."""
        query, key, value = (call.tensor(i + self.backward) for i in range(3))
        if query is None or key is None or value is None:
            return None
        return (query, key, value) if _four_dimensions(query, key, value) else None

    def count(self, call: Call) -> int:
        """FLOPs; a single query sees all keys, so that causality spares it nothing."""
        tensors = self.tensors(call)
        if tensors is None:
            return 0
        query, key, value = tensors
        queries, keys = query.shape[self.rows], key.shape[self.rows]
        return attention_flops(
            query.shape[0] * query.shape[3 - self.rows] * queries * keys,
            query.shape[3],
            value.shape[3],
            causal=self.causes(call) and queries > 1,
            backward=self.backward,
        )

    def measure(self, call: Call) -> Operation | None:
        """The work, keyed by (batch × heads, queries, keys, head size); decoding counts the cache's heads."""
        tensors = self.tensors(call)
        if tensors is None:
            return None
        query, key, value = tensors
        batch, heads, key_heads = (
            query.shape[0],
            query.shape[3 - self.rows],
            key.shape[3 - self.rows],
        )
        queries, keys, head = query.shape[self.rows], key.shape[self.rows], query.shape[3]
        moved = query.touched + key.touched + value.touched
        moved += batch * heads * queries * head * query.each
        kind = "attention_backward" if self.backward else "attention"
        masked = ".masked" * (self.mask >= 0 and call.tensor(self.mask) is not None)
        if queries == 1 and not self.backward:
            shape = (batch * key_heads, heads // max(1, key_heads), keys, head)
            return Operation(kind, shape, 0.0, float(moved), f"decode.{self.backend}{masked}")
        table = f"{kind}.{self.backend}" + ".fp32" * (query.each == 4)
        table += ".causal" * self.causes(call) + masked + ".dropout" * self._drops(call)
        table += ".grouped" * (key_heads != heads)
        size = (batch * heads, queries, keys, head)
        return Operation(kind, size, 0.0, float(moved * (1 + self.backward)), table)

    def _drops(self, call: Call) -> bool:
        share = call.value(self.dropout)
        return isinstance(share, (int, float)) and not isinstance(share, bool) and share > 0


def _four_dimensions(*tensors: Operand) -> bool:
    return all(len(t.shape) == 4 for t in tensors)


# --- convolutions -----------------------------------------------------------------------------------


class Convolution(NamedTuple):
    """At which place a convolution has each argument, -1 for none; the weight comes after the image."""

    stride: int
    padding: int
    dilation: int
    groups: int = -1
    transposed: int = -1
    more: int = -1
    """The output padding of a transposed convolution."""
    image: int = 0
    output_mask: int = -1
    """Backward: for which of image, weight and bias a gradient is wanted."""
    always_transposed: bool = False

    @property
    def backward(self) -> bool:
        """Whether it makes gradients, of which the first tensor is that of the result."""
        return self.image > 0

    def is_transposed(self, call: Call) -> bool:
        """Whether every element of the image spreads over a window of the result."""
        flagged = self.transposed >= 0 and call.value(self.transposed) is True
        return self.always_transposed or flagged

    def result(self, call: Call, x: Operand, w: Operand) -> tuple[int, ...]:
        """The result's size without batch and channels: as recorded, else from the arguments."""
        recorded = call.tensor(0) if self.backward else next(iter(call.outputs), None)
        if recorded is not None and len(recorded.shape) == len(x.shape):
            return recorded.shape[2:]
        return tuple(
            self._size(call, place, size, window)
            for place, (size, window) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True))
        )

    def _size(self, call: Call, place: int, size: int, window: int) -> int:
        stride, dilation = (_of(call, i, place, 1) for i in (self.stride, self.dilation))
        if self.is_transposed(call):
            padding, more = (_of(call, i, place, 0) for i in (self.padding, self.more))
            return transposed_size(size, window, stride, padding, dilation, more)
        if not call.numbers(
            self.padding
        ):  # not recorded: taken as padded so that sizes stay, as most are
            return -(-size // max(1, stride))
        padding = _of(call, self.padding, place, 0)
        return convolution_size(size, window, stride, padding, dilation)

    def passes(self, call: Call) -> int:
        """One forward; backward one for the gradient of the image and one for that of the weight."""
        if not self.backward:
            return 1
        output_mask = next(
            (v for v in (call.value(self.output_mask), *call.values) if _is_flags(v)), None
        )
        return 2 if output_mask is None else sum(bool(w) for w in output_mask[:2])

    def operands(self, call: Call) -> tuple[Operand, Operand] | None:
        """Image and weight; None where one is missing or they do not fit each other."""
        x, w = call.tensor(self.image), call.tensor(self.image + 1)
        if x is None or w is None or len(x.shape) < 3 or len(x.shape) != len(w.shape):
            return None
        return (x, w) if x.elements and w.elements else None

    def count(self, call: Call) -> int:
        """A window for each element of the result; of the image where it is transposed."""
        operands = self.operands(call)
        if operands is None:
            return 0
        x, w = operands
        spread = x.shape[2:] if self.is_transposed(call) else self.result(call, x, w)
        pixels = x.shape[0] * math.prod(spread)
        return self.passes(call) * convolution_flops(pixels, w.shape)

    def measure(self, call: Call) -> Operation | None:
        """The work, by (batch, channels in, size, channels out, window, stride); volumes have no key."""
        operands = self.operands(call)
        if operands is None:
            return None
        x, w = operands
        groups = max(1, call.number(self.groups, 1)) if self.groups >= 0 else 1
        outputs = w.shape[1] * groups if self.is_transposed(call) else w.shape[0]
        result_elements = x.shape[0] * math.prod(self.result(call, x, w)) * outputs
        moved = float(self.passes(call) * x.each * (x.elements + result_elements))
        if len(x.shape) > 4:
            name = "conv_backward" if self.backward else "conv"
            return Operation(name, (), 0.0, moved, f"{name}.volume{_unrounded(call, x)}")
        step = max(call.numbers(self.stride) or [_guessed_stride(call, x)]) or 1
        if self.always_transposed:
            return _spread(_image(x), _image(w), step, moved, _unrounded(call, x))
        return self._keyed(call, (_image(x), _image(w)), step, groups, moved)

    def _keyed(
        self, call: Call, operands: tuple[Operand, Operand], step: int, groups: int, moved: float
    ) -> Operation:
        x, w = operands
        batch, channels, height, width = x.shape
        line = height == 1 < width
        kind = "conv_backward" if self.backward else "conv"
        name = kind if x.strides is None or x.strides[1] == 1 else f"{kind}_nchw"
        table = name + (".fp32" if x.each == 4 else "") + (".depthwise" if groups > 1 else "")
        table += ".line" if line else ""
        table += ".weight" if self.backward and self.passes(call) == 1 else ""
        table += "" if groups > 1 else _unrounded(call, x)  # kernels of few channels never round
        window = w.shape[3] if line else w.shape[2]
        shape = (batch, channels, max(height, width), w.shape[0], window, step)
        return Operation(name, shape, 0.0, moved, table)


def _of(call: Call, index: int, place: int, default: int) -> int:
    """The entry for a dimension in a list of numbers; a single number counts for all dimensions."""
    numbers = call.numbers(index) if index >= 0 else []
    return (numbers[place] if place < len(numbers) else numbers[0]) if numbers else default


def _image(operand: Operand) -> Operand:
    """The operand with four dimensions: a line becomes an image of one row."""
    if len(operand.shape) == 4:
        return operand
    batch, channels, length = operand.shape
    strides = operand.strides
    wide = (*strides[:2], 1, *strides[2:]) if strides is not None else None
    return operand._replace(shape=(batch, channels, 1, length), strides=wide)


def _guessed_stride(call: Call, x: Operand) -> int:
    """The stride as the sizes of image and result suggest, where the arguments do not have it."""
    out = call.outputs[0].shape if call.outputs else x.shape
    return max(1, round(x.shape[2] / max(1, out[2]))) if len(out) == len(x.shape) == 4 else 1


def _spread(x: Operand, w: Operand, step: int, moved: float, mark: str) -> Operation:
    """The work of a transposed convolution of cuDNN: the same key, a separate class."""
    batch, channels, height, _ = x.shape
    shape = (batch, channels, height, w.shape[1], w.shape[2], step)
    table = "conv_transpose" + (".fp32" if x.each == 4 else "") + mark
    return Operation("conv", shape, 0.0, moved, table)


def _is_flags(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(v, bool) for v in value)


# --- recurrent layers -------------------------------------------------------------------------------


class Recurrent(NamedTuple):
    """Recurrent layers of cuDNN; `mode` is the place of the mode among the arguments."""

    passes: int
    mode: int

    def count(self, call: Call) -> int:
        """Every weight of a matrix once per step and pass; biases are sums, and count nothing."""
        x, buffer = call.tensor(0), call.tensor(3)
        if x is None or len(x.shape) < 2:
            return 0
        matrices = sum(w.elements for w in call.listed(1) if len(w.shape) > 1)
        weights = matrices or (buffer.elements if buffer is not None else 0)
        return recurrent_flops(math.prod(x.shape[:-1]), 1, weights, self.passes)

    def measure(self, call: Call) -> Operation | None:
        """The work, keyed by (steps of all layers, batch, hidden size, weights of a layer)."""
        x, weights, hidden = call.tensor(0), _weights(call), call.value(self.mode + 1)
        layers, both = call.value(self.mode + 3), call.value(self.mode + 7)
        if x is None or not weights or len(x.shape) != 3 or not isinstance(hidden, int):
            return None
        count = max(1, layers if isinstance(layers, int) else 1) * (2 if both is True else 1)
        steps, batch = x.shape[:2] if call.value(self.mode + 4) is not True else x.shape[1::-1]
        touched = sum(w.touched for w in weights)
        moved = float(self.passes * (touched + steps * batch * hidden * count * x.each))
        shape = (steps * count, batch, hidden, sum(w.elements for w in weights) // count)
        table = f"{call.short}.{x.each * 8}{_unrounded(call, x)}"
        return Operation("gemm", shape, 0.0, moved, table)


def _weights(call: Call) -> list[Operand]:
    """The weights of recurrent layers: one buffer, or tensors of their own where it is undefined."""
    buffer = call.tensor(3)
    return [buffer] if buffer is not None and buffer.shape else call.listed(1)
