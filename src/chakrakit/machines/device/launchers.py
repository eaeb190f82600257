"""The operations that the device rows of a trace compute, described as in profiles.

An operation comes from the operator that launched the rows, where the trace has one (linked traces: the
launch edge, then outwards to the first operator with shapes), or from a row itself (its own shapes, else
what generated rows say, see generated.py). An operator may launch several kernels; they are one operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from chakrakit.machines.device.generated import GeneratedRow, generated_operation
from chakrakit.operators import (
    UNTYPED_LIST,
    ArgumentTexts,
    Call,
    Operand,
    Operation,
    host_copy,
    operation_of,
    read_call,
    streamed,
)
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import on_host

_MEMORY = re.compile("Mem(set|cpy)")
_GENERATED = ("triton_", "aten::")
"""Beginnings of the names of operators with shapes: PyTorch's operators and generated fused kernels."""


class Touch(NamedTuple):
    """Bytes of one storage that an operation reads or writes."""

    storage: int
    bytes: int


class LaunchedOperation(NamedTuple):
    """An operation and the device rows that carry it out."""

    rows: tuple[int, ...]
    operation: Operation
    operator: str
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()


_SMALL = 100_000
"""Nodes of a trace whose operations are remembered while it lives, some 50 MB: what is expected of a
recording and every change that is tried on it ask for them."""
_REMEMBERED: WeakKeyDictionary[Trace, Sequence[LaunchedOperation]] = WeakKeyDictionary()


def operations_of(trace: Trace) -> Sequence[LaunchedOperation]:
    """The operations of the device compute rows, in the order of their first rows."""
    operations = _REMEMBERED.get(trace)
    if operations is None:
        operations = tuple(_operations(trace))
        if len(trace) <= _SMALL:
            _REMEMBERED[trace] = operations
    return operations


def _operations(trace: Trace) -> list[LaunchedOperation]:
    host = on_host(trace)
    rows = np.flatnonzero(trace.is_type(NodeType.COMP_NODE) & ~host)
    launchers = Launchers(trace)
    together: dict[int, list[int]] = {}
    for row in rows.tolist():
        operator = launchers.operator(row)
        together.setdefault(-1 - row if operator is None else operator, []).append(row)
    works = (launchers.work(operator, tuple(part)) for operator, part in together.items())
    return [work for work in works if work is not None]


def operators_of(trace: Trace) -> list[LaunchedOperation]:
    """The operators of the host that compute something, each with its row and those that it calls.

    They are the innermost ones that multiply matrices, whose copies and fills are a part of them, and the
    innermost ones elsewhere.
    """
    launchers = Launchers(trace)
    host = np.flatnonzero(trace.is_type(NodeType.COMP_NODE) & on_host(trace)).tolist()
    known = {row: work for row in host if (work := launchers.called(row)) is not None}
    products = [row for row, work in known.items() if work.operation.flops]
    callers_of_products = _callers(products, trace)
    calls = {row: [row] for row in products if row not in callers_of_products}
    callers, alone = _callers(known, trace), []
    for row in host:
        caller = int(trace.parent[row])
        while caller >= 0 and caller not in calls:
            caller = int(trace.parent[caller])
        if caller >= 0:
            calls[caller].append(row)
        elif row in known and row not in callers and row not in calls:
            alone.append(known[row])
    return [*(known[row]._replace(rows=tuple(rows)) for row, rows in calls.items()), *alone]


def _callers(rows: Iterable[int], trace: Trace) -> set[int]:
    """All rows that these run inside of."""
    callers: set[int] = set()
    for row in rows:
        above = int(trace.parent[row])
        while above >= 0 and above not in callers:
            callers.add(above)
            above = int(trace.parent[above])
    return callers


class Launchers:
    """Finds the operator that launched a kernel, and the work of its kernels."""

    def __init__(self, trace: Trace) -> None:
        edges = trace.edges
        launch = edges.kind == EdgeKind.LAUNCH
        self._launch: dict[int, int] = dict(
            zip(edges.dst[launch].tolist(), edges.src[launch].tolist(), strict=True)
        )
        self._makers = _makers(trace)
        self._written: dict[int, int] = {}
        self._parent = trace.parent
        names = trace.names.combine_chunks()
        self._names = [str(name) for name in names.dictionary.to_pylist()]
        self._codes: list[int] = names.indices.to_pylist()
        self._flops, self._moved = trace.column("num_ops", 0), trace.column("tensor_size", 0)
        self._text = {c: _texts(trace, c) for c in _COLUMNS}

    def name(self, row: int) -> str:
        """A row's name."""
        return self._names[self._codes[row]]

    def operator(self, kernel: int) -> int | None:
        """The innermost operator around a kernel's launch that has shapes."""
        row = self._launch.get(kernel, -1)
        while row >= 0:
            if self.name(row).startswith(_GENERATED) and self._text["inputs_shapes"](row):
                return row
            row = int(self._parent[row])
        return None

    def work(self, operator: int, rows: tuple[int, ...]) -> LaunchedOperation | None:
        """The work that an operator's rows do together; None where nothing is known about it."""
        if operator < 0:
            return self._unlaunched(rows)
        kernels = tuple(r for r in rows if not _MEMORY.match(self.name(r))) or rows
        call = self.call(operator, kernels)
        operation = operation_of(call)
        if operation is None:
            if UNTYPED_LIST in self._text["inputs_types"](operator):
                return None  # what the list holds is not recorded, and the rest is next to nothing
            operation = streamed(max(int(self._moved[r]) for r in kernels))
        return LaunchedOperation(
            rows, operation, call.name, _touches(call.tensors), _touches(call.outputs)
        )

    def call(self, row: int, kernels: tuple[int, ...] = ()) -> Call:
        """A row's recorded arguments, and the names of the kernels it launched."""
        text = {c: of(row) for c, of in self._text.items()}
        outputs = ArgumentTexts(
            text["outputs_shapes"],
            text["outputs_types"],
            text["outputs_strides"],
            text["outputs_values"],
        )
        return read_call(
            self.name(row), text["inputs_shapes"], text["inputs_types"], text["inputs_strides"],
            text["inputs_values"], outputs=outputs, kernels=tuple(self.name(k) for k in kernels),
            computes_in=text["dtype"],
        )  # fmt: skip

    def called(self, row: int) -> LaunchedOperation | None:
        """The work of an operator that computes itself; None for others and for views."""
        if not (self.name(row).startswith(_GENERATED) and self._text["inputs_shapes"](row)):
            return None
        operation = operation_of(self.call(row))
        return LaunchedOperation((row,), operation, self.name(row)) if operation else None

    def _unlaunched(self, rows: tuple[int, ...]) -> LaunchedOperation | None:
        """The work of a row without a launcher, from its own shapes or else from its counters."""
        row = rows[0]
        if (copied := host_copy(self.name(row), float(self._moved[row]))) is not None:
            return LaunchedOperation(rows, copied, self.name(row))
        if self.name(row).startswith(_GENERATED) and self._text["inputs_shapes"](row):
            call = self.call(row)
            if (operation := operation_of(call)) is not None:
                return LaunchedOperation(rows, operation, call.name, *self._made_of(row, call))
        counted = self._counted(row)
        return LaunchedOperation(rows, counted, self.name(row)) if counted else None

    def _made_of(self, row: int, call: Call) -> tuple[tuple[Touch, ...], tuple[Touch, ...]]:
        """What a call reads and writes: by storage where it is known, else by the rows that made its inputs.

        Inputs that no row made, such as parameters, are in no cache.
        """
        reads, writes = _touches(call.tensors), _touches(call.outputs)
        if reads or writes:
            return reads, writes
        left = sum(t.touched for t in call.tensors)
        for maker in self._makers.get(row, ()):
            if (size := min(left, self._written.get(maker, 0))) > 0:
                reads += (Touch(maker, size),)
                left -= size
        if left:
            reads += (Touch(-1 - row, left),)
        self._written[row] = sum(t.touched for t in call.outputs)
        return reads, (Touch(row, self._written[row]),)

    def _counted(self, row: int) -> Operation | None:
        text = {c: self._text[c](row) for c in ("op_type", "dtype", "phase", "inputs_shapes")}
        return generated_operation(
            GeneratedRow(
                self.name(row), text["op_type"], text["dtype"], text["phase"], text["inputs_shapes"],
                float(self._flops[row]), float(self._moved[row]),
            )
        )  # fmt: skip


_COLUMNS = (
    "inputs_shapes", "inputs_types", "inputs_strides", "inputs_values", "outputs_shapes",
    "outputs_types", "outputs_strides", "outputs_values", "op_type", "dtype", "phase",
)  # fmt: skip


def _makers(trace: Trace) -> dict[int, list[int]]:
    """By row, the rows of the device whose results it reads, the last ones first."""
    edges, host = trace.edges, on_host(trace)
    reads = np.isin(edges.kind, (EdgeKind.DATA, EdgeKind.TENSOR)) & ~host[edges.src]
    makers: dict[int, list[int]] = {}
    for row, maker in sorted(
        zip(edges.dst[reads].tolist(), edges.src[reads].tolist(), strict=True), reverse=True
    ):
        makers.setdefault(row, []).append(maker)
    return makers


def _touches(operands: Sequence[Operand]) -> tuple[Touch, ...]:
    return tuple(Touch(o.storage, o.touched) for o in operands if o.storage >= 0)


def _texts(trace: Trace, column: str) -> Callable[[int], str]:
    codes, texts = trace.texts(column)
    values = [*(text or "" for text in texts), ""]  # the last for code -1, a row without a text
    each: list[int] = codes.tolist()
    return lambda row: values[each[row]]
