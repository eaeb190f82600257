"""FLOPs and bytes of every row, from the shapes of the operator it works for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, Mask
from chakrakit.sources.pytorch.match import RowNames, Timeline, nearest
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.work.flops import (
    Call,
    flops,
    is_contraction,
    moves_bytes,
    parse_shapes,
)

_NEEDS_VALUES = ("convolution", "attention")
_MOST_BYTES = float(1 << 62)
"""Tensors larger than this are damage, and count nothing."""


def work_of_rows(
    line: Timeline, names: RowNames, observer: Observer | None, kineto: Kineto | None
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
        operator = line.operator[rows]
        count[rows] = _observer_flops(observer, operator)
        moved[rows] = _observer_bytes(observer)[operator]
        moved[rows[~names.where(moves_bytes)[rows]]] = 0
    elif kineto is not None:
        rows = np.flatnonzero(counted & (line.event >= 0) & (line.kind == Kind.OPERATOR))
        count[rows] = _kineto_flops(kineto, line.event[rows])
    return _to_workers(line, count, moved)


def _last_contractions(line: Timeline, names: RowNames) -> Mask:
    """Contractions inside which there is no further one."""
    out: Mask = (line.kind == Kind.OPERATOR) & line.is_host & names.where(is_contraction)
    above = np.unique(line.parent[out])
    while len(above) and above[-1] >= 0:
        out[above[above >= 0]] = False
        above = np.unique(line.parent[above[above >= 0]])
    return out


def innermost(line: Timeline, names: RowNames) -> Mask:
    """Host operators that leave their work to no other; views and allocations inside do not count."""
    operators: Mask = (line.kind == Kind.OPERATOR) & line.is_host
    out = operators.copy()
    working = operators & names.where(moves_bytes) & (line.parent >= 0) & ~line.astray
    out[line.parent[np.flatnonzero(working)]] = False
    return out


def _observer_flops(observer: Observer, operator: I64) -> I64:
    columns = observer.text_columns
    wants = observer.texts.where(lambda s: any(w in s for w in _NEEDS_VALUES))
    special = np.where(wants[observer.name[operator]], operator, -1)
    keys = (observer.name, columns["in_shapes"], columns["out_shapes"])
    return _per_distinct(
        [k[operator] for k in keys] + [special],
        lambda name, ins, outs, row: flops(
            Call(
                observer.texts[name],
                parse_shapes(observer.texts[ins]),
                parse_shapes(observer.texts[outs]),
                parse_shapes(observer.in_values[row].as_py()) if row >= 0 else [],
            )
        ),
    )


def _kineto_flops(kineto: Kineto, event: I64) -> I64:
    texts, columns = kineto.texts, kineto.text_columns
    keys: list[I32 | I64] = [kineto.name[event], columns["in_dims"][event]]
    return _per_distinct(
        keys, lambda name, dims: flops(Call(texts[name], parse_shapes(texts[dims]), [], []))
    )


def _per_distinct(keys: Sequence[NDArray[Any]], ask: Callable[..., int]) -> I64:
    """One answer per distinct combination of keys, spread over all rows."""
    table = np.stack([np.asarray(k, np.int64) for k in keys], axis=1)
    if not len(table):
        return np.empty(0, np.int64)
    mixed = np.zeros(len(table), np.int64)
    for column in table.T:
        _, number = np.unique(column, return_inverse=True)
        _, mixed = np.unique(mixed * (int(number.max()) + 1) + number, return_inverse=True)
    _, first = np.unique(mixed, return_index=True)
    answers = np.array([ask(*row) for row in table[first].tolist()], np.int64)
    return answers[mixed]


def _observer_bytes(observer: Observer) -> I64:
    table = observer.tensors
    size = table.elements.astype(np.float64) * table.itemsize
    total = np.bincount(table.node, np.maximum(size, 0.0), len(observer))
    return np.where(total < _MOST_BYTES, total, 0).astype(np.int64)


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
