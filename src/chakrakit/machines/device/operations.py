"""Operations: what the device rows of a trace compute, in the terms profiles are made in.

An operation comes from the operator that launched the rows, where the trace has one (linked traces: the
launch edge, then outwards to the first operator with shapes), or from a row itself (`op_type`, `num_ops`,
`tensor_size`). An operator may launch several kernels; they are one operation.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import on_host


class Operation(NamedTuple):
    """A class of work and its size. `shape` is what the class's table is keyed by, or nothing."""

    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float


class Work(NamedTuple):
    """An operation and the device rows that carry it out."""

    rows: tuple[int, ...]
    operation: Operation
    operator: str


_OP_TYPES = {"matmul": "gemm", "attention": "attention"}
_GEMMS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1), "aten::baddbmm": (1, 2)}
_MEMORY = re.compile("Mem(set|cpy)")
_ATTENTION = re.compile(r"aten::_(scaled_dot_product_)?(flash|efficient|cudnn).*attention(_\w+)?$")
_WITH_OUTPUT = {"aten::cudnn_convolution"}
"""Operators whose stride only the output's shape tells; it is put before the inputs'."""
_IMAGES = {"conv", "conv_backward", "batch_norm", "batch_norm_backward"}
_SMALLEST = 1
"""Bytes of an operation that is known to move some, but not how many."""


def operations_of(trace: Trace) -> list[Work]:
    """The operations of the device compute rows, in the order of their first rows."""
    host = on_host(trace)
    rows = np.flatnonzero(trace.is_type(NodeType.COMP_NODE) & ~host)
    launchers = Launchers(trace)
    together: dict[int, list[int]] = {}
    for row in rows.tolist():
        operator = launchers.operator(row)
        together.setdefault(-1 - row if operator is None else operator, []).append(row)
    found = (launchers.work(operator, tuple(part)) for operator, part in together.items())
    return [work for work in found if work is not None]


class Launchers:
    """From a kernel to the operator that launched it."""

    def __init__(self, trace: Trace) -> None:
        edges = trace.edges
        launch = edges.kind == EdgeKind.LAUNCH
        self._launch: dict[int, int] = dict(
            zip(edges.dst[launch].tolist(), edges.src[launch].tolist(), strict=True)
        )
        self._caller = _callers(trace) if self._launch else {}
        names = trace.names.combine_chunks()
        self._names = names.dictionary.to_pylist()
        self._codes = names.indices.to_numpy()
        self._flops, self._moved = trace.column("num_ops", 0), trace.column("tensor_size", 0)
        self._shapes, self._types = _texts(trace, "inputs_shapes"), _texts(trace, "inputs_types")
        self._outputs = _texts(trace, "outputs_shapes")
        self._strides = _texts(trace, "inputs_strides")
        self._op_type = _texts(trace, "op_type")

    def name(self, row: int) -> str:
        """A row's name."""
        return str(self._names[self._codes[row]])

    def operator(self, kernel: int) -> int | None:
        """The innermost operator around a kernel's launch that has shapes."""
        row = self._launch.get(kernel)
        for _ in range(64):
            if row is None:
                return None
            if self.name(row).startswith("aten::") and self._shapes(row):
                return row
            row = self._caller.get(row)
        return None

    def work(self, operator: int, rows: tuple[int, ...]) -> Work | None:
        """What an operator's rows do together; None where nothing is known of it."""
        if operator < 0:
            known = self._from_row(rows[0])
            return Work(rows, known, self.name(rows[0])) if known else None
        kernels = tuple(r for r in rows if not _MEMORY.match(self.name(r))) or rows
        moved = max(int(self._moved[r]) for r in kernels)
        name = self.name(operator)
        shapes, each = _parse(self._shapes(operator)), _element_bytes(self._types(operator))
        if name in _WITH_OUTPUT:
            shapes = _parse(self._outputs(operator))[:1] + shapes
        known = classify(name, shapes, each)
        if known is not None and known.kind in _IMAGES and not self._channels_last(operator):
            known = known._replace(kind=f"{known.kind}_nchw")
        return Work(kernels, known or _streaming(moved), name)

    def _channels_last(self, operator: int) -> bool:
        """Whether an image's channels lie next to each other; other kernels run where they do not."""
        strides = _parse(self._strides(operator))
        return bool(strides) and len(strides[0]) == 4 and strides[0][1] == 1

    def _from_row(self, row: int) -> Operation | None:
        flops, moved = float(self._flops[row]), float(self._moved[row])
        kind = _OP_TYPES.get(self._op_type(row))
        if kind is not None and flops:
            return Operation(kind, (), flops, moved)
        return _streaming(int(moved)) if moved else None


def classify(name: str, shapes: list[Any], each: int) -> Operation | None:
    """The operation of an operator by name, input shapes and bytes per element; None if it has no class."""
    if name in _GEMMS:
        return _gemm(name, shapes)
    if _ATTENTION.match(name):
        return _attention(name, shapes)
    maker = _BY_NAME.get(name)
    return maker(shapes, each) if maker is not None else None


def _texts(trace: Trace, column: str) -> Callable[[int], str]:
    if column not in trace.table.column_names:
        return lambda _row: ""
    values = trace.table.column(column)
    return lambda row: values[row].as_py() or ""


def _callers(trace: Trace) -> dict[int, int]:
    """The host row around each host row: the last one on its thread that began before and ends after."""
    host = np.flatnonzero(on_host(trace) & trace.has("tid"))
    tid, start, end = trace.column("tid", -1), trace.start_ns, trace.end_ns
    order = host[np.lexsort((host, -end[host], start[host], tid[host]))]
    out: dict[int, int] = {}
    around: list[int] = []
    for row in order.tolist():
        while around and (tid[around[-1]] != tid[row] or end[around[-1]] < end[row]):
            around.pop()
        if around:
            out[row] = around[-1]
        around.append(row)
    return out


def _parse(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _element_bytes(types: str) -> int:
    return 2 if re.search("BFloat16|Half", types.split(",")[0]) else 4


def _is_shape(shape: Any, least: int = 1) -> bool:
    sound = isinstance(shape, list) and len(shape) >= least
    return sound and all(isinstance(n, int) and n > 0 for n in shape)


def _streaming(moved: int) -> Operation:
    """Whatever only passes through memory."""
    return Operation("elementwise", (max(_SMALLEST, moved),), 0.0, float(max(_SMALLEST, moved)))


def gemm_operation(m: int, n: int, k: int) -> Operation:
    """M×K times K×N. Sizes that are no multiple of 8 leave the fast kernels, so they are a class apart."""
    odd = n % 8 or k % 8 or (m % 8 and m > 64)
    flops, moved = 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n)
    return Operation("gemm_odd" if odd else "gemm", (m, n, k), flops, moved)


def _gemm(name: str, shapes: list[Any]) -> Operation | None:
    """A batch of products counts as one with a taller M."""
    first, second = _GEMMS[name]
    if len(shapes) <= second or not all(_is_shape(shapes[i], 2) for i in (first, second)):
        return None
    a, b = shapes[first], shapes[second]
    return gemm_operation(math.prod(a[:-1]), b[-1], a[-1])


def _attention(name: str, shapes: list[Any]) -> Operation | None:
    """Causal: batch, heads, sequence, head size."""
    if not shapes or not _is_shape(shapes[0], 4) or len(shapes[0]) != 4:
        return None
    backward = name.endswith("backward")
    batch, heads, sequence, head = shapes[0]
    flops = (5.0 if backward else 2.0) * batch * heads * sequence * sequence * head
    moved = (16.0 if backward else 8.0) * batch * heads * sequence * head
    kind = "attention_backward" if backward else "attention"
    return Operation(kind, (batch, heads, sequence, head), flops, moved)


def _rows(kind: str, passes: int) -> Callable[[list[Any], int], Operation | None]:
    """Rows of numbers, each looked at as a whole: (rows, bytes per row)."""

    def make(shapes: list[Any], each: int) -> Operation | None:
        if not shapes or not _is_shape(shapes[0], 2):
            return None
        count, length = math.prod(shapes[0][:-1]), shapes[0][-1] * each
        return Operation(kind, (count, length), 0.0, float(passes * count * length))

    return make


def _channels(kind: str, passes: int) -> Callable[[list[Any], int], Operation | None]:
    """Images normalized by channel: (values a channel, channels)."""

    def make(shapes: list[Any], each: int) -> Operation | None:
        if not shapes or not _is_shape(shapes[0], 4):
            return None
        batch, channels, *size = shapes[0]
        values = batch * math.prod(size)
        return Operation(kind, (values, channels), 0.0, float(passes * each * values * channels))

    return make


def _reduction(kind: str) -> Callable[[list[Any], int], Operation | None]:
    """Read once; what is written is small."""

    def make(shapes: list[Any], each: int) -> Operation | None:
        if not shapes or not _is_shape(shapes[0]):
            return None
        moved = math.prod(shapes[0]) * each
        return Operation(kind, (moved,), 0.0, float(moved))

    return make


def _adamw(shapes: list[Any], each: int) -> Operation | None:
    """Parameters, gradients and two moments read, all but gradients written."""
    if not shapes or not isinstance(shapes[0], list) or not all(_is_shape(s) for s in shapes[0]):
        return None
    moved = 7 * each * sum(math.prod(s) for s in shapes[0])
    return Operation("adamw", (moved,), 0.0, float(moved))


def _convolution(kind: str, passes: int) -> Callable[[list[Any], int], Operation | None]:
    """(batch, channels in, size, channels out, kernel size, stride), from output, image and weight."""

    def make(shapes: list[Any], each: int) -> Operation | None:
        if len(shapes) < 3 or not all(_is_shape(shapes[i], 4) for i in range(3)):
            return None
        batch, c, size = shapes[1][:3]
        k, r = shapes[2][0], shapes[2][2]
        stride = max(1, round(size / shapes[0][2]))
        pixels = batch * (size // stride) ** 2
        flops = 2.0 * passes * pixels * k * c * r * r
        moved = float(passes * each * (batch * c * size * size + pixels * k))
        return Operation(kind, (batch, c, size, k, r, stride), flops, moved)

    return make


_BY_NAME: dict[str, Callable[[list[Any], int], Operation | None]] = {
    "aten::native_layer_norm": _rows("layer_norm", 2),
    "aten::native_layer_norm_backward": _rows("layer_norm_backward", 3),
    "aten::_softmax": _rows("softmax", 2),
    "aten::_log_softmax": _rows("softmax", 2),
    "aten::_log_softmax_backward_data": _rows("softmax_backward", 3),
    "aten::native_batch_norm": _channels("batch_norm", 2),
    "aten::native_batch_norm_backward": _channels("batch_norm_backward", 3),
    "aten::cudnn_convolution": _convolution("conv", 1),
    "aten::convolution_backward": _convolution("conv_backward", 2),
    "aten::sum": _reduction("sum"),
    "aten::mean": _reduction("mean"),
    "aten::_fused_adamw_": _adamw,
}
