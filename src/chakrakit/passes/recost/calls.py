"""Calls: the outermost of chosen nodes, with all that runs inside them on host and device."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host


class Calls:
    """What chosen nodes stand for.

    A chosen host node that is not inside another one is a call: to it belong the host nodes that run
    inside it and the device nodes they launch. A chosen device node outside all calls is one by itself.
    `call[row]` is the row of the call a node belongs to, -1 for none.
    """

    def __init__(self, trace: Trace, chosen: Mask) -> None:
        self.host = on_host(trace)
        self.call = _outermost(chosen & self.host, trace.parent)
        launch = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
        self.call[launch.dst] = np.where(
            chosen[launch.dst] & (self.call[launch.src] < 0), launch.dst, self.call[launch.src]
        )
        alone = chosen & ~self.host & (self.call < 0)
        self.call[alone] = np.flatnonzero(alone)
        self._start = trace.start_ns

    def last(self, among: Mask) -> I64:
        """Of each call the row that begins last among some."""
        rows = np.flatnonzero(among & (self.call >= 0))
        rows = rows[np.lexsort((rows, self._start[rows], self.call[rows]))]
        final = np.ones(len(rows), np.bool_)
        final[:-1] = self.call[rows[1:]] != self.call[rows[:-1]]
        return rows[final]


def _outermost(chosen: Mask, parent: I32) -> I64:
    """For each row the outermost chosen row that it is, or is inside of; -1 for none.

    By doubling: every round looks twice as far outwards.
    """
    rows = np.arange(len(chosen))
    found = np.where(chosen, rows, -1)
    up = np.where(parent >= 0, parent, rows).astype(np.int64)
    while (up != up[up]).any():
        found = np.where(found[up] >= 0, found[up], found)
        up = up[up]
    return np.where(found[up] >= 0, found[up], found)
