"""Host rows inside host rows: who called whom, from times on a thread."""

from __future__ import annotations

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.trace.model import Trace

SLACK_NS = 2_000
"""By how much an inner row may end after the outer one: clocks are no better."""


def callers(trace: Trace, start: I64, end: I64, among: Mask) -> I32:
    """For each of some rows that have a thread, the row around it on its thread; -1 for none."""
    out = np.full(len(trace), -1, np.int32)
    rows = np.flatnonzero(among & trace.has("tid"))
    outer = nested(trace.column("tid", 0)[rows], start[rows], end[rows])
    out[rows[outer >= 0]] = rows[outer[outer >= 0]]
    return out


def nested(thread: I64, start: I64, end: I64, slack_ns: int = SLACK_NS) -> I64:
    """For each row the innermost row around it on its thread; -1 for none.

    A row that outlives the one around it by more than `slack_ns` is asynchronous: it has that
    caller, but nothing that runs meanwhile is taken to be inside of it.
    """
    order = np.lexsort((-end, start, thread))
    number = np.unique(thread[order], return_inverse=True)[1].astype(np.int32)
    outer, _ = core.nest(number, start[order], end[order], slack_ns)
    out = np.full(len(thread), -1, np.int64)
    out[order[outer >= 0]] = order[outer[outer >= 0]]
    return out
