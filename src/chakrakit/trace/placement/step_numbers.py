"""Steps of a trace: as its nodes say, or found where the same device work repeats."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64
from chakrakit.trace.model import COMMUNICATION, EdgeKind, NodeType, Trace
from chakrakit.trace.placement.rows import on_host

_ALIKE = 0.95
_TRIED = 32
_DEVICE = (NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE, *COMMUNICATION)


def step_numbers(trace: Trace, rows: I64, start: I64) -> tuple[I64, str]:
    """The step of each of some device rows (-1: none), and how it is known: `marked`, `repeating`, `none`."""
    if "step" in trace.table.column_names:
        number = trace.column("step", -1)[rows].astype(np.int64)
        if (number >= 0).any():
            return number, "marked"
    order = np.argsort(start[rows], kind="stable")
    period = repeating_period(trace.texts("name")[0][rows[order]])
    if not period:
        return np.zeros(len(rows), np.int64), "none"
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    return place // period, "repeating"


def steps_of(trace: Trace) -> I64:
    """The step of every row, -1 where it belongs to none: as `chakra analyze` numbers them.

    Where no node says its step, device rows are numbered by how often they repeat, and a host row
    belongs to the step of what it launches next on its thread.
    """
    if trace.has("step").any():
        return np.asarray(trace.column("step", -1), np.int64)
    host = on_host(trace)
    orphan = trace.column("orphan", False).astype(np.bool_)
    device = np.flatnonzero(trace.is_type(*_DEVICE) & ~host & ~orphan)
    found = np.full(len(trace), -1, np.int64)
    found[device], how = step_numbers(trace, device, trace.start_ns)
    if how == "none":
        return found
    edges = trace.edges
    launch = edges.kind == EdgeKind.LAUNCH
    found[edges.src[launch]] = found[edges.dst[launch]]
    return _filled(trace, found, np.flatnonzero(host))


def _filled(trace: Trace, found: I64, rows: I64) -> I64:
    """Host rows without a step take the next one on their thread, and the last ones the one before."""
    thread = trace.column("tid", 0)
    for one in np.unique(thread[rows]).tolist():
        mine = rows[thread[rows] == one]
        mine = mine[np.argsort(trace.start_ns[mine], kind="stable")]
        known = np.flatnonzero(found[mine] >= 0)
        if len(known):
            after = np.minimum(np.searchsorted(known, np.arange(len(mine))), len(known) - 1)
            found[mine] = found[mine[known[after]]]
    return found


def repeating_period(codes: I32) -> int:
    """The length after which names repeat, 0 if they do not: tried are gaps between rare names."""
    values, counts = np.unique(codes, return_counts=True)
    again = counts >= 2
    rare = values[again][np.argsort(counts[again], kind="stable")][:_TRIED]
    tried: set[int] = set()
    for value in rare.tolist():
        gaps = np.diff(np.flatnonzero(codes == value))
        tried.add(int(np.median(gaps)))
    for period in sorted(tried):
        # Shorter than that, and a loop inside a step would pass for the step.
        if 4 <= period <= len(codes) // 2 and (codes[period:] == codes[:-period]).mean() >= _ALIKE:
            return period
    return 0
