"""How long a trace takes if read plainly: each node after all it depends on, with its whole duration."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, U64
from chakrakit.errors import TraceError
from chakrakit.trace.model import Graph, Trace

MOST_NODES = 2_000_000
"""Of longer traces the plain reading is not known: its nodes would have to stay in memory."""


class PlainReading:
    """Collects a body's pieces; `finish` gives its own span and that of its plain reading, in ns."""

    def __init__(self) -> None:
        self._ids: list[U64] = []
        self._start: list[I64] = []
        self._duration: list[I64] = []
        self._deps: list[tuple[U64, I64]] = []
        self._rows = 0
        self._known = True

    def add(self, piece: Trace) -> None:
        """The next nodes."""
        self._known &= self._rows + len(piece) <= MOST_NODES
        if not self._known:
            self._ids, self._start, self._duration, self._deps = [], [], [], []
            return
        self._ids.append(piece.ids)
        self._start.append(piece.start_ns)
        self._duration.append(np.maximum(piece.duration_ns, 0))
        for name in ("data_deps", "ctrl_deps"):
            ids, rows = _listed(piece.table.column(name))
            self._deps.append((ids, rows + self._rows))
        self._rows += len(piece)

    def finish(self) -> tuple[int, int] | None:
        """(own span, plain span); None where there are no times, a cycle, or too many nodes."""
        if not self._known or not self._rows:
            return None
        ids, start = np.concatenate(self._ids), np.concatenate(self._start)
        duration = np.concatenate(self._duration)
        if not duration.any() or not (start > start.min()).any():
            return None
        src, dst = self._edges(ids)
        try:
            finish, _ = Graph(len(ids), src, dst).longest_path(duration)
        except TraceError:
            return None  # a cycle is a finding of its own
        ran = duration > 0
        return int((start + duration)[ran].max() - start[ran].min()), int(finish.max())

    def _edges(self, ids: U64) -> tuple[I64, I64]:
        order = np.argsort(ids, kind="stable")
        wanted = np.concatenate([d for d, _ in self._deps])
        child = np.concatenate([r for _, r in self._deps])
        place = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
        parent = order[place]
        found = (ids[parent] == wanted) & (parent != child)
        return parent[found].astype(np.int64), child[found]


def _listed(column: pa.ChunkedArray) -> tuple[U64, I64]:
    """The entries of a column of lists, and the row of each."""
    lists = column.combine_chunks()
    ids = lists.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return ids, np.repeat(np.arange(len(lists), dtype=np.int64), counts)
