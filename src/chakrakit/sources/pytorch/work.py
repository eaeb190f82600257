"""FLOPs and bytes of every row, from the shapes of the operator it works for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.operators import (
    ArgumentTexts,
    Call,
    Cost,
    cost_of,
    json_list,
    operator_of,
    read_call,
)
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, nearest


def work_of_rows(
    line: Timeline, names: TimelineNames, observer: Observer | None, kineto: Kineto | None
) -> tuple[I64, I64]:
    """(FLOPs, bytes) by row.

    Counted are the operators that call no other, and matrix products, convolutions and attentions that
    call no other such (on a host `addmm` copies its bias first), each once: at the longest kernel it
    launched, or at itself where it launched none.
    """
    counted = innermost(line, names) | _last_contractions(line, names)
    count = np.zeros(len(line), np.int64)
    moved = np.zeros(len(line), np.int64)
    if observer is not None:
        rows = np.flatnonzero(counted & (line.operator >= 0))
        count[rows], moved[rows] = _observed(observer, line.operator[rows])
    elif kineto is not None:
        rows = np.flatnonzero(counted & (line.event >= 0) & (line.kind == Kind.OPERATOR))
        count[rows], moved[rows] = _from_dimensions(kineto, line.event[rows])
    return _to_workers(line, count, moved)


def touches_memory(name: str) -> bool:
    """Whether an operator reads or writes elements; views and allocations do not."""
    return operator_of(name).touches_memory


def _on_products(name: str) -> bool:
    return operator_of(name).on_products


def _last_contractions(line: Timeline, names: TimelineNames) -> Mask:
    """Matrix products, convolutions and attentions that contain no other."""
    out: Mask = (line.kind == Kind.OPERATOR) & line.is_host & names.where(_on_products)
    above = np.unique(line.parent[out])
    while len(above) and above[-1] >= 0:
        out[above[above >= 0]] = False
        above = np.unique(line.parent[above[above >= 0]])
    return out


def innermost(line: Timeline, names: TimelineNames) -> Mask:
    """Host operators that call no other, apart from views and allocations."""
    operators: Mask = (line.kind == Kind.OPERATOR) & line.is_host
    out = operators.copy()
    working = operators & names.where(touches_memory) & (line.parent >= 0) & ~line.astray
    out[line.parent[np.flatnonzero(working)]] = False
    return out


def _observed(observer: Observer, operator: I64) -> tuple[I64, I64]:
    """(FLOPs, bytes) of recorded operators.

    Values are read where an operator's work depends on plain arguments: they name the tensors, so that no
    two calls have the same.
    """
    texts, columns = observer.texts, observer.text_columns
    plain = texts.where(lambda name: operator_of(name).plain)
    special = np.where(plain[observer.name[operator]], operator, -1)
    sides = ("in_shapes", "in_types", "in_strides", "out_shapes", "out_types", "out_strides")

    def ask(name: int, *text: int) -> Cost:
        *numbers, row = text
        shapes, types, strides, *results = (texts[n] for n in numbers)
        values = observer.in_values[row].as_py() if row >= 0 else ""
        return cost_of(
            read_call(texts[name], shapes, types, strides, values, outputs=ArgumentTexts(*results))
        )

    keys = [observer.name[operator], *(columns[side][operator] for side in sides), special]
    return _per_distinct(keys, ask)


def _from_dimensions(kineto: Kineto, event: I64) -> tuple[I64, I64]:
    """(FLOPs, bytes) from Kineto alone: no bytes without types, and nothing for lists of tensors."""
    texts, columns = kineto.texts, kineto.text_columns
    sides = ("in_dims", "in_types", "in_strides", "in_values")

    def ask(name: int, *text: int) -> Cost:
        dims, types, strides, values = (texts[n] for n in text)
        cost = cost_of(_kineto_call(texts[name], dims, types, strides, values))
        return cost if types else cost._replace(bytes=0)

    keys = [kineto.name[event], *(columns[side][event] for side in sides)]
    return _per_distinct(keys, ask)


def _kineto_call(name: str, dims: str, types: str, strides: str, values: str) -> Call:
    """A call from Kineto's texts; without types all tensors are taken for `float`."""
    if not json_list(types):
        types = msgspec.json.encode(["float"] * len(json_list(dims))).decode()
    return read_call(name, dims, types, strides, values)


def _per_distinct(keys: Sequence[NDArray[Any]], ask: Callable[..., Cost]) -> tuple[I64, I64]:
    """(FLOPs, bytes) by row, with `ask` called once per distinct combination of keys."""
    table = np.stack([np.asarray(k, np.int64) for k in keys], axis=1)
    if not len(table):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    mixed = np.zeros(len(table), np.int64)
    for column in table.T:
        _, number = np.unique(column, return_inverse=True)
        _, mixed = np.unique(mixed * (int(number.max()) + 1) + number, return_inverse=True)
    _, first = np.unique(mixed, return_index=True)
    answers = [ask(*row) for row in table[first].tolist()]
    work = np.array([(cost.ops, cost.bytes) for cost in answers], np.int64)[mixed]
    return work[:, 0], work[:, 1]


def _to_workers(line: Timeline, count: I64, moved: I64) -> tuple[I64, I64]:
    owner = nearest(line, (line.kind == Kind.OPERATOR) & line.is_host)
    device = np.flatnonzero((line.lane >= 0) & (owner >= 0))
    device = device[np.argsort(line.duration[device], kind="stable")]
    worker = np.arange(len(line))
    worker[owner[device]] = device
    rows = np.flatnonzero((count > 0) | (moved > 0))
    out = np.zeros(len(line), np.int64), np.zeros(len(line), np.int64)
    for total, values in zip(out, (count, moved), strict=True):
        total[worker[rows]] = values[rows]
    return out
