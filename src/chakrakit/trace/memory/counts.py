"""Memory from `mem_alloc` and `mem_free`: bytes that nodes take and give back."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I8, I64
from chakrakit.errors import TraceError
from chakrakit.trace.memory.allocations import KINDS, Allocations
from chakrakit.trace.model import Trace

HELD_KIND = "held_kind"
"""Header attribute: what the nodes' own allocations are for, where they are not activations."""
_LABELS = ("(held by nodes)",)


def from_counts(trace: Trace, start: I64, end: I64) -> Allocations | None:
    """A node takes its bytes when it starts and releases others when it ends; None without either."""
    columns = trace.table.column_names
    if "mem_alloc" not in columns and "mem_free" not in columns:
        return None
    alloc = trace.column("mem_alloc", 0).astype(np.int64)
    free = trace.column("mem_free", 0).astype(np.int64)
    wrong = np.flatnonzero((alloc < 0) | (free < 0))
    if len(wrong):
        raise TraceError(f"node {trace.ids[wrong[0]]}: mem_alloc and mem_free are bytes, 0 or more")
    order = _issue_order(trace, start)
    row = np.repeat(order, 2)
    at_end = np.tile([False, True], len(order))
    size = np.stack([alloc[order], -free[order]], 1).reshape(-1)
    kind = np.repeat(_kinds(trace)[order], 2)
    kept = size != 0
    return Allocations(
        row[kept],
        at_end[kept],
        size[kept],
        kind[kept],
        np.zeros(int(kept.sum()), np.int32),
        _LABELS,
        "bytes that nodes take and release",
    )


def _issue_order(trace: Trace, start: I64) -> I64:
    """The file's order where every node comes after what it depends on, else the order of starts."""
    edges = trace.edges
    if not len(edges) or bool((edges.src < edges.dst).all()):
        return np.arange(len(trace))
    return np.argsort(start, kind="stable")


def _kinds(trace: Trace) -> I8:
    """What the nodes' bytes are for; they are released without saying by whom they were taken."""
    said = str(trace.metadata.attributes.get(HELD_KIND, "activations"))
    usual = KINDS.index(said) if said in KINDS else KINDS.index("other")
    return np.full(len(trace), usual, np.int8)
