"""What rows of a timed run work by themselves: waiting for another row's end is no work."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.trace.model import EdgeForm, Trace

_ROUNDING_NS = 1


def held_back(trace: Trace, start: I64, end: I64) -> Mask:
    """Rows that ended with what a finish→finish edge holds them to, later than their own work would.

    `start` and `end` are a run's times of the rows; their own work is what the trace says it is.
    """
    held = np.zeros(len(trace), np.bool_)
    edges = trace.edges.where(trace.edges.form == EdgeForm.FINISH_FINISH)
    at = end[edges.src] + edges.lag
    held[edges.dst[np.abs(at - end[edges.dst]) <= _ROUNDING_NS]] = True
    return held & (trace.own_ns < end - start)
