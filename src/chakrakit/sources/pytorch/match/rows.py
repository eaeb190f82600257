"""What a row is called and what it inherits from the rows around it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.match.timeline import Timeline
from chakrakit.sources.pytorch.read import Kineto, Observer


class RowNames:
    """The name of every row of a timeline, from Kineto or, where it has none, from the observer."""

    def __init__(self, line: Timeline, observer: Observer | None, kineto: Kineto | None) -> None:
        ours = kineto.texts.strings if kineto is not None else []
        theirs = observer.texts.strings if observer is not None else []
        self.strings = [*ours, *theirs]
        number = np.zeros(len(line), np.int64)
        timed = line.event >= 0
        if kineto is not None:
            number[timed] = kineto.name[line.event[timed]]
        if observer is not None:
            number[~timed] = observer.name[line.operator[~timed]] + len(ours)
        self.number = number

    def __getitem__(self, row: int) -> str:
        return self.strings[int(self.number[row])]

    def where(self, test: Callable[[str], Any]) -> Mask:
        """Rows whose name passes the test, which sees every distinct name once."""
        used = np.unique(self.number)
        passed = np.zeros(len(self.strings), np.bool_)
        passed[used] = [bool(test(self.strings[n])) for n in used]
        return passed[self.number]

    def matching(self, pattern: str) -> Mask:
        """Rows in whose name the regular expression is found."""
        return self.where(re.compile(pattern).search)

    def column(self) -> pa.Array:
        """The names as a dictionary column, only those in use."""
        used, index = np.unique(self.number, return_inverse=True)
        words = pa.array([self.strings[n] for n in used], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), words)


def inherit(line: Timeline, values: I64) -> I64:
    """Each row's own value, or else that of the nearest row above it that has one; -1 for none."""
    out, above = values.copy(), line.parent.copy()
    open_rows = np.flatnonzero((out < 0) & (above >= 0))
    while len(open_rows):  # each look reaches twice as far up, however deep rows are nested
        outer = above[open_rows]
        found = out[outer]
        out[open_rows] = found
        above[open_rows] = np.where(found < 0, above[outer], -1)
        open_rows = open_rows[above[open_rows] >= 0]
    return out


def nearest(line: Timeline, chosen: Mask) -> I64:
    """The nearest chosen row at or above each row; -1 for none."""
    return inherit(line, np.where(chosen, np.arange(len(line)), -1))
