"""Nodes added to a body, with plain dependencies between old rows and new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chakrakit.arrays import U64
from chakrakit.trace.model import EdgeKind, Edges, Trace


def with_nodes(trace: Trace, columns: Mapping[str, Any], waits: Sequence[tuple[int, int]]) -> Trace:
    """The trace with more nodes, whose rows follow its own; `waits` are pairs of rows: the second waits."""
    count = len(next(iter(columns.values())))
    if not count and not waits:
        return trace
    both = Trace.concat([trace, Trace.from_columns({"id": free_ids(trace, count), **columns})])
    pairs = np.array(waits, np.int64).reshape(-1, 2)
    added = Edges.of(pairs[:, 0], pairs[:, 1], EdgeKind.DATA)
    return both.with_edges(Edges.concat([trace.edges, added]))


def free_ids(trace: Trace, count: int) -> U64:
    """Ids for so many more nodes: those after the highest, or, where none are left there, between others."""
    first = int(trace.ids.max(initial=0)) + 1
    if first + count < 1 << 64:
        return np.uint64(first) + np.arange(count, dtype=np.uint64)
    candidates = np.arange(len(trace) + count, dtype=np.uint64)
    return np.setdiff1d(candidates, trace.ids)[:count]
