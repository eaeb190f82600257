"""Operations: what the device rows of a trace compute, in the terms profiles are made in.

A row's operation comes from the operator that launched it, where the trace has one (linked traces: the
launch edge, then outwards to the first operator with shapes), or from the row itself (`op_type`,
`num_ops`, `tensor_size`).
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

import numpy as np

from chakrakit.trace.edges import EdgeKind
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace


class Operation(NamedTuple):
    """A class of work and its size. `shape` is what the class's table is keyed by, or nothing."""

    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float


_OP_TYPES = {"matmul": "gemm", "attention": "attention"}
_GEMMS = {"aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::bmm": (0, 1), "aten::baddbmm": (1, 2)}
_ROWWISE = {
    "aten::native_layer_norm": "layer_norm",
    "aten::_softmax": "softmax",
    "aten::_log_softmax": "softmax",
}
_ELEMENTWISE = {
    "aten::add", "aten::add_", "aten::sub", "aten::mul", "aten::mul_", "aten::div", "aten::copy_",
    "aten::cat", "aten::neg", "aten::pow", "aten::silu", "aten::gelu", "aten::relu", "aten::clamp_min_",
    "aten::tanh", "aten::silu_backward", "aten::gelu_backward", "aten::threshold_backward",
    "aten::fill_", "aten::sigmoid",
}  # fmt: skip
_MEMORY = re.compile("Mem(set|cpy)")
_GEMM_KERNEL = re.compile("gemm|nvjet|cutlass|xmma", re.I)
_ATTENTION_KERNEL = re.compile("sdpa|flash|fmha|attention", re.I)
_ATTENTION = re.compile(
    r"aten::_(scaled_dot_product_)?(flash|efficient|cudnn).*attention(_forward)?$"
)


def operations_of(trace: Trace) -> dict[int, Operation]:
    """By row, for the device compute rows whose operation is known."""
    host = trace.column("is_cpu_op", False).astype(np.bool_)
    rows = np.flatnonzero(trace.is_type(NodeType.COMP_NODE) & ~host)
    flops, moved = trace.column("num_ops", 0), trace.column("tensor_size", 0)
    kinds = (
        trace.table.column("op_type").to_pylist() if "op_type" in trace.table.column_names else None
    )
    launchers = Launchers(trace)
    out: dict[int, Operation] = {}
    for row in rows.tolist():
        found = launchers.operation(row)
        if found is None and kinds is not None and kinds[row] in _OP_TYPES and flops[row]:
            found = Operation(_OP_TYPES[kinds[row]], (), float(flops[row]), float(moved[row]))
        if found is not None:
            out[row] = found
    return out


class Launchers:
    """From a kernel to the operator that launched it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        edges = trace.edges
        launch = edges.kind == EdgeKind.LAUNCH
        self._launch: dict[int, int] = dict(
            zip(edges.dst[launch].tolist(), edges.src[launch].tolist(), strict=True)
        )
        self._caller = _callers(trace) if self._launch else {}
        names = trace.names.combine_chunks()
        self._names = names.dictionary.to_pylist()
        self._codes = names.indices.to_numpy()
        has = "inputs_shapes" in trace.table.column_names
        self._moved = trace.column("tensor_size", 0)
        self._shapes = trace.table.column("inputs_shapes") if has else None

    def name(self, row: int) -> str:
        """A row's name."""
        return str(self._names[self._codes[row]])

    def operator(self, kernel: int) -> int | None:
        """The innermost operator around a kernel's launch that has shapes."""
        row = self._launch.get(kernel)
        for _ in range(64):
            if row is None:
                return None
            if self.name(row).startswith("aten::") and self._shape_text(row):
                return row
            row = self._caller.get(row)
        return None

    def _shape_text(self, row: int) -> str:
        return (self._shapes[row].as_py() or "") if self._shapes is not None else ""

    def operation(self, kernel: int) -> Operation | None:
        """The operation of a kernel; None where its operator is not known or not one of ours."""
        row = self.operator(kernel)
        if row is None or _MEMORY.match(self.name(kernel)):
            return None
        name, shapes = self.name(row), _parse(self._shape_text(row))
        if name in _GEMMS:
            return _gemm(name, shapes) if _GEMM_KERNEL.search(self.name(kernel)) else None
        if _ATTENTION.match(name):
            return _attention(shapes) if _ATTENTION_KERNEL.search(self.name(kernel)) else None
        if name in _ROWWISE:
            return _rowwise(_ROWWISE[name], shapes)
        moved = int(self._moved[kernel])
        if name in _ELEMENTWISE and moved > 0:
            return Operation("elementwise", (moved,), 0.0, float(moved))
        return None


def _callers(trace: Trace) -> dict[int, int]:
    """The host row around each host row: the last one on its thread that began before and ends after."""
    host = np.flatnonzero(trace.column("is_cpu_op", False).astype(np.bool_) & trace.has("tid"))
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


def _parse(text: str) -> list[list[int]]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [s for s in found if isinstance(s, list)] if isinstance(found, list) else []


def _gemm(name: str, shapes: list[list[int]]) -> Operation | None:
    """M×K times K×N; a batch of them counts as one with a taller M."""
    first, second = _GEMMS[name]
    if len(shapes) <= second or not all(_is_matrix(shapes[i]) for i in (first, second)):
        return None
    a, b = shapes[first], shapes[second]
    m, k, n = math.prod(a[:-1]), a[-1], b[-1]
    return Operation("gemm", (m, n, k), 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n))


def _is_matrix(shape: list[int]) -> bool:
    return len(shape) >= 2 and all(isinstance(n, int) and n > 0 for n in shape)


def _rowwise(kind: str, shapes: list[list[int]]) -> Operation | None:
    """Rows and their length; one pass in and one out, two bytes an element."""
    if not shapes or not _is_matrix(shapes[0]):
        return None
    rows, length = math.prod(shapes[0][:-1]), shapes[0][-1]
    return Operation(kind, (rows, length), 0.0, 4.0 * rows * length)


def _attention(shapes: list[list[int]]) -> Operation | None:
    """Causal, forward: batch, heads, sequence, head size."""
    if not shapes or len(shapes[0]) != 4 or not all(isinstance(n, int) for n in shapes[0]):
        return None
    batch, heads, sequence, head = shapes[0]
    flops = 2.0 * batch * heads * sequence * sequence * head
    return Operation(
        "attention", (batch, heads, sequence, head), flops, 8.0 * batch * heads * sequence * head
    )
