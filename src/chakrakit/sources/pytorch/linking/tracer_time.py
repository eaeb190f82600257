"""Time in which the device tracer worked for itself, as it says in its own records."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.edges import HostModel
from chakrakit.sources.pytorch.read import Kind, Kineto

_ITS_OWN = frozenset(("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource"))
"""Kineto's names for what CUPTI does on behalf of tracing (CUpti_ActivityOverheadKind).

Its other kinds are paid without tracing too: compiling, loading modules, a full queue of commands.
"""


def tracer_time(kineto: Kineto, host: HostModel) -> I64:
    """Nanoseconds by row: what the tracer did in the gap before a runtime call.

    The records name no thread. The tracer works on the thread that makes a call, just before it: the
    next call, on any thread, whose gap before it holds the whole record.
    """
    taken = np.zeros(len(host.line), np.int64)
    line, chosen = host.line, kineto.texts.where(_ITS_OWN.__contains__)[kineto.name]
    records = np.flatnonzero((kineto.kind == Kind.OVERHEAD) & chosen)
    calls = np.flatnonzero((line.kind == Kind.CALL) & (host.before >= 0) & (host.recorded_lag > 0))
    calls = calls[np.argsort(line.start[calls], kind="stable")]
    begin = line.start[calls] - host.recorded_lag[calls]
    for record in records.tolist():
        start, end = int(kineto.start[record]), int(kineto.end[record])
        later = int(np.searchsorted(line.start[calls], end))
        holds = np.flatnonzero(begin[later:] <= start)
        if len(holds):
            taken[calls[later + holds[0]]] += end - start
    return np.minimum(taken, np.maximum(host.recorded_lag, 0))
