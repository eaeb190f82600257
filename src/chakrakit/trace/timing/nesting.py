"""Host rows inside host rows: who called whom, from times on a thread."""

from __future__ import annotations

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.trace.model import Trace

_SLACK_NS = 2_000
"""By how much an inner row may end after the outer one: clocks are no better."""


def callers(trace: Trace, start: I64, end: I64, among: Mask) -> I32:
    """For each of some rows that have a thread, the row around it on its thread; -1 for none."""
    out = np.full(len(trace), -1, np.int32)
    rows = np.flatnonzero(among & trace.has("tid"))
    if not len(rows):
        return out
    thread = trace.column("tid", 0)[rows]
    order = np.lexsort((-end[rows], start[rows], thread))
    rows = rows[order]
    number = np.unique(thread[order], return_inverse=True)[1].astype(np.int32)
    outer, _ = core.nest(number, start[rows], end[rows], _SLACK_NS)
    out[rows] = np.where(outer >= 0, rows[np.maximum(outer, 0)], -1)
    return out
