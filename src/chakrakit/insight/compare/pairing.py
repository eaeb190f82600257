"""Rows of the same rank in two runs, put side by side: which is which, and which takes longer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I8, I64
from chakrakit.insight.rank import Kind, RankView
from chakrakit.trace.communication import turns

_CHANGED = 0.05
"""Single rows jitter: less than a twentieth either way counts as the same."""


class RowChange(IntEnum):
    """How a row takes its time beside its twin."""

    SAME = 0
    SLOWER = 1
    FASTER = 2
    ALONE = 3
    """It has no twin: it was added, or is gone on the other side."""


@dataclass(frozen=True, eq=False)
class Paired:
    """One side: for each row its twin on the other side (-1: none), and a RowChange."""

    twin: I64
    change: I8


def pair(a: RankView, b: RankView) -> tuple[Paired, Paired]:
    """Pairs the n-th row of a name and type in A with the n-th in B, by start; B is judged against A.

    Seen from A, SLOWER means that it takes longer in B, too: both twins say the same.
    """
    sides = [_keys(v) for v in (a, b)]
    number = pa.concat_arrays([names for _, names in sides]).dictionary_encode().indices
    codes = np.split(number.to_numpy(), [len(sides[0][0])])
    width = max((len(rows) for rows, _ in sides), default=0) + 1
    keys = [c.astype(np.int64) * width + turns(c) for c in codes]
    _, left, right = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    rows_a, rows_b = sides[0][0][left], sides[1][0][right]
    change = _changes(a.duration[rows_a], b.duration[rows_b])
    return _side(len(a), rows_a, rows_b, change), _side(len(b), rows_b, rows_a, change)


def _keys(view: RankView) -> tuple[I64, pa.Array]:
    """Rows that ran in order of start, and what each is called."""
    rows = np.flatnonzero(view.ran & (view.kind != Kind.NONE))
    rows = rows[np.lexsort((rows, view.start[rows]))]
    codes, texts = view.names
    types = view.trace.types[rows].astype(np.int64)
    distinct, which = np.unique(codes[rows] * 1000 + types, return_inverse=True)
    told = [f"{key % 1000} {texts[key // 1000]}" for key in distinct.tolist()]
    return rows, pa.array(told, pa.string()).take(pa.array(which))


def _changes(a: I64, b: I64) -> I8:
    change = np.full(len(a), RowChange.SAME, np.int8)
    change[b - a > _CHANGED * a] = RowChange.SLOWER
    change[a - b > _CHANGED * a] = RowChange.FASTER
    return change


def _side(rows: int, own: I64, other: I64, change: I8) -> Paired:
    twin, told = np.full(rows, -1, np.int64), np.full(rows, RowChange.ALONE, np.int8)
    twin[own], told[own] = other, change
    return Paired(twin, told)
