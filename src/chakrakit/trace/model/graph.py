"""A directed graph over rows, and the questions that need nothing but its shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.model.edges import MAX_ROWS, Scalar, check_range, column

_SHOWN = 8
"""Rows of a cycle that a message lists: about one line; `find_cycle` gives all."""


class Graph:
    """Rows 0..n-1 and edges src[i] → dst[i].

    Immutable; every array it hands out is read-only. Equal edges and self-loops are allowed. A
    cyclic graph can be built, walked (`ancestors`, `descendants`) and asked for a cycle, but what
    needs an order (`topological_order`, `levels`, `longest_path`, `transitive_reduction`) raises a
    TraceError that names one. All methods take time linear in rows and edges, except
    `transitive_reduction`, which says what it takes.

    Adjacency is compressed, both ways: the edges that leave row v are
    `out_edges[out_offsets[v]:out_offsets[v+1]]` (ascending edge numbers), their targets the same
    slice of `out_targets`; `in_offsets`, `in_sources` and `in_edges` are the edges that arrive.
    """

    def __init__(self, n: int, src: ArrayLike, dst: ArrayLike) -> None:
        if not 0 <= n <= MAX_ROWS:
            raise TraceError(f"a graph has 0..{MAX_ROWS:,} rows, not {n:,}; split the trace")
        self.n = n
        self.src, self.dst = _ends(n, src, dst)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Graph({self.n:,} rows, {len(self.src):,} edges)"

    @cached_property
    def _out(self) -> tuple[I64, I32, I32]:
        return _grouped(self.n, self.src, self.dst)

    @cached_property
    def _in(self) -> tuple[I64, I32, I32]:
        return _grouped(self.n, self.dst, self.src)

    @property
    def out_offsets(self) -> I64:
        """Where each row's outgoing edges begin in `out_targets` and `out_edges`; n + 1 of them."""
        return self._out[0]

    @property
    def out_targets(self) -> I32:
        """The target of every edge, grouped by source."""
        return self._out[1]

    @property
    def out_edges(self) -> I32:
        """The number of every edge, grouped by source: per-edge arrays follow by indexing."""
        return self._out[2]

    @property
    def in_offsets(self) -> I64:
        """Where each row's incoming edges begin in `in_sources` and `in_edges`; n + 1 of them."""
        return self._in[0]

    @property
    def in_sources(self) -> I32:
        """The source of every edge, grouped by target."""
        return self._in[1]

    @property
    def in_edges(self) -> I32:
        """The number of every edge, grouped by target."""
        return self._in[2]

    @cached_property
    def sortable(self) -> I32:
        """Rows that no cycle holds back, sources before targets: all of them where there is no cycle."""
        return _frozen(core.graph_topological_order(self.out_offsets, self.out_targets))

    @property
    def is_acyclic(self) -> bool:
        """Whether no row reaches itself."""
        return len(self.sortable) == self.n

    def topological_order(self) -> I32:
        """All rows, sources before targets.

        First in, first out: the rows without predecessors in ascending order, then each row when
        its last predecessor has been listed. The same graph always gives the same order.
        """
        if not self.is_acyclic:
            raise TraceError(_cycle_text(self.find_cycle() or []))
        return self.sortable

    @cached_property
    def _levels(self) -> I32:
        order = self.topological_order()
        return _frozen(core.graph_levels(self.out_offsets, self.out_targets, order))

    def levels(self) -> I32:
        """Per row, the number of edges on the longest path that leads to it."""
        return self._levels

    def descendants(self, rows: ArrayLike) -> Mask:
        """A mask of what can be reached from `rows` along the edges, `rows` included."""
        return self._reach(self.out_offsets, self.out_targets, rows)

    def ancestors(self, rows: ArrayLike) -> Mask:
        """A mask of what reaches `rows` along the edges, `rows` included."""
        return self._reach(self.in_offsets, self.in_sources, rows)

    def _reach(self, offsets: I64, neighbours: I32, rows: ArrayLike) -> Mask:
        roots = column(np.atleast_1d(np.asarray(rows)), np.int32, "rows")
        check_range(roots, 0, self.n, "rows", f"the graph has {self.n:,} rows")
        return core.graph_reachable(offsets, neighbours, roots).view(np.bool_)

    def longest_path(self, weights: ArrayLike, lags: ArrayLike | None = None) -> tuple[I64, I32]:
        """Per row, the weight of the heaviest path that ends there, and the row before on it.

            finish(v) = max(0, finish(u) + lag(u → v) for every predecessor u) + weight(v)

        `weights` has one number per row, `lags` one per edge; both may be negative. The path may
        begin at any row; its first has predecessor -1. A predecessor wins over none on equal
        weight, and of equal predecessors the one with the lowest edge number.
        """
        order = self.topological_order()
        per_row = self._column(weights, self.n, "weights")
        per_edge = np.empty(0, np.int64)
        if lags is not None:
            per_edge = self._column(lags, len(self.src), "lags")
        try:
            paths: tuple[I64, I32] = core.graph_longest_path(*self._in, order, per_row, per_edge)
        except OverflowError as error:
            raise TraceError(f"{error}; check weights and lags") from None
        return paths

    def transitive_reduction(self) -> Mask:
        """A mask over the edges: those no other path replaces. Of equal edges the first stays.

        Exact. Linear for graphs whose edges span few levels, and for those that are a few chains
        (threads, streams) with edges of any length between them: time (rows + edges) × chains / 16
        at most, the chains being those that long edges lead to. The worst case is a wide graph
        full of long edges; memory stays at 64 bytes per row.
        """
        order, levels = self.topological_order(), self.levels()
        return core.graph_transitive_reduction(*self._out, order, levels).view(np.bool_)

    def find_cycle(self) -> list[int] | None:
        """Rows of one cycle, each with an edge to the next and the last to the first; or None.

        A self-loop is a cycle of one row. Always the same one for the same graph.
        """
        if self.is_acyclic:
            return None
        rows: list[int] = core.graph_find_cycle(self.n, self.src, self.dst, self.sortable).tolist()
        return rows

    def _column(self, values: ArrayLike, length: int, name: str) -> I64:
        array = column(values, np.int64, name)
        if len(array) != length:
            raise TraceError(f"{name} has {len(array):,} entries; this graph needs {length:,}")
        return array


def _ends(n: int, src: ArrayLike, dst: ArrayLike) -> tuple[I32, I32]:
    ends = column(src, np.int32, "src"), column(dst, np.int32, "dst")
    if len(ends[0]) != len(ends[1]):
        raise TraceError(
            f"src has {len(ends[0]):,} entries and dst {len(ends[1]):,}; an edge needs both"
        )
    for name, array in zip(("src", "dst"), ends, strict=True):
        check_range(array, 0, n, name, f"the graph has {n:,} rows")
    # Copies: the core trusts these rows, so they must not change after the check.
    return _frozen(ends[0].copy()), _frozen(ends[1].copy())


def _grouped(n: int, keys: I32, values: I32) -> tuple[I64, I32, I32]:
    offsets, rows, edges = core.graph_group(n, keys, values)
    return _frozen(offsets), _frozen(rows), _frozen(edges)


def _frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    array.flags.writeable = False
    return array


def _cycle_text(rows: Sequence[int]) -> str:
    row_texts = [str(row) for row in rows[:_SHOWN]] + ["…"] * (len(rows) > _SHOWN)
    loop = " → ".join([*row_texts, str(rows[0])])
    return (
        f"the graph has a cycle of {len(rows):,} rows: {loop}; "
        "remove one of its edges (Graph.find_cycle() gives all its rows)"
    )
