"""What the device rows of a trace compute, in the terms profiles are made in.

An operation comes from the operator that launched the rows, where the trace has one (linked traces: the
launch edge, then outwards to the first operator with shapes), or from a row itself (its own shapes, else
`op_type`, `num_ops`, `tensor_size`). An operator may launch several kernels; they are one operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.operators import Call, Operand, Operation, Texts, operation_of, read_call, streamed
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import on_host

_OP_TYPES = {"matmul": "gemm", "attention": "attention"}
_OPTIMIZER = "optimizer"
"""What generators call an update of parameters; frameworks fuse it, as they do AdamW."""
_MEMORY = re.compile("Mem(set|cpy)")
_GENERATED = ("triton_", "aten::")
"""How operators begin that have shapes: PyTorch's own, and kernels generated for fused ones."""


class Touch(NamedTuple):
    """Bytes of one storage that an operation reads or writes."""

    storage: int
    bytes: int


class Work(NamedTuple):
    """An operation and the device rows that carry it out."""

    rows: tuple[int, ...]
    operation: Operation
    operator: str
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()


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
        self._parent = trace.parent
        names = trace.names.combine_chunks()
        self._names = names.dictionary.to_pylist()
        self._codes = names.indices.to_numpy()
        self._flops, self._moved = trace.column("num_ops", 0), trace.column("tensor_size", 0)
        self._text = {c: _texts(trace, c) for c in _COLUMNS}
        self._known: dict[tuple[str, ...], Operation | None] = {}

    def name(self, row: int) -> str:
        """A row's name."""
        return str(self._names[self._codes[row]])

    def operator(self, kernel: int) -> int | None:
        """The innermost operator around a kernel's launch that has shapes."""
        row = self._launch.get(kernel, -1)
        while row >= 0:
            if self.name(row).startswith(_GENERATED) and self._text["inputs_shapes"](row):
                return row
            row = int(self._parent[row])
        return None

    def work(self, operator: int, rows: tuple[int, ...]) -> Work | None:
        """What an operator's rows do together; None where nothing is known of it."""
        if operator < 0:
            return self._own(rows)
        kernels = tuple(r for r in rows if not _MEMORY.match(self.name(r))) or rows
        call = self._call(operator, kernels)
        found = operation_of(call)
        if found is None:
            found = streamed(max(int(self._moved[r]) for r in kernels))
        return Work(rows, found, call.name, _touches(call.tensors), _touches(call.outputs))

    def _call(self, row: int, kernels: tuple[int, ...]) -> Call:
        text = {c: of(row) for c, of in self._text.items()}
        outputs = Texts(text["outputs_shapes"], text["outputs_types"], "", text["outputs_values"])
        return read_call(
            self.name(row), text["inputs_shapes"], text["inputs_types"], text["inputs_strides"],
            text["inputs_values"], outputs=outputs, kernels=tuple(self.name(k) for k in kernels),
        )  # fmt: skip

    def _own(self, rows: tuple[int, ...]) -> Work | None:
        """A row that nobody launched: by its own shapes, else by what it counts."""
        row = rows[0]
        if self.name(row).startswith(_GENERATED) and self._text["inputs_shapes"](row):
            call = self._call(row, ())
            if (found := operation_of(call)) is not None:
                return Work(rows, found, call.name, _touches(call.tensors), _touches(call.outputs))
        known = self._counted(row)
        return Work(rows, known, self.name(row)) if known else None

    def _counted(self, row: int) -> Operation | None:
        flops, moved = float(self._flops[row]), float(self._moved[row])
        op_type = self._text["op_type"](row)
        if op_type == _OPTIMIZER and moved:
            return Operation("adamw", (), 0.0, moved)
        kind = _OP_TYPES.get(op_type)
        if kind is not None and flops:
            return Operation(kind, (), flops, moved)
        return streamed(int(moved)) if moved else None


_COLUMNS = (
    "inputs_shapes", "inputs_types", "inputs_strides", "inputs_values", "outputs_shapes",
    "outputs_types", "outputs_values", "op_type",
)  # fmt: skip


def _touches(operands: Sequence[Operand]) -> tuple[Touch, ...]:
    return tuple(Touch(o.storage, o.touched) for o in operands if o.storage >= 0)


def _texts(trace: Trace, column: str) -> Callable[[int], str]:
    if column not in trace.table.column_names:
        return lambda _row: ""
    values = trace.table.column(column)
    return lambda row: values[row].as_py() or ""
