"""The plain reading of a trace: every dependency means "starts after the end of", and nothing else counts."""

from __future__ import annotations

import numpy as np

from chakrakit.trace.model import Trace


def plain_span_ns(trace: Trace) -> int:
    """The longest path of a trace read plainly, with each node's whole duration."""
    if not len(trace):
        return 0
    finish, _ = trace.graph.longest_path(np.maximum(trace.duration_ns, 0))
    return int(finish.max())
