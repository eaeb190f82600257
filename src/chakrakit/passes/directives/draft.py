"""A draft: the nodes of a trace as rows that can be inserted, dropped and put in another order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.errors import ConfigError
from chakrakit.operators import find_type
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Metadata, NodeType, Trace

COMPUTE, GATHER, REDUCE, MESSAGES = 0, 4, 5, 6
"""Streams as generated traces number them; those of messages are not kept in order."""
_NOT_COLUMNS = ("id", "ctrl_deps", "data_deps", "start_time_micros", "duration_micros")
"""Numbers and edges are written anew, and what was changed has no times yet."""


_GLOBAL = (
    "directives change a global trace whose nodes stand in order, as `chakra generate` makes it"
)
_MOST_BATCHES = 1 << 31


class DraftRow(dict[str, Any]):
    """A node's attributes by name. Two rows are the same only if they are one object."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


Edge = tuple[DraftRow, DraftRow, int, int, int]
"""From, to, kind, form and lag."""


class Draft:
    """Rows in order, and the edges between them. Edges of rows that are dropped are dropped with them."""

    def __init__(self, trace: Trace) -> None:
        table = trace.nodes
        self.types = {f.name: f.type for f in table.schema if f.name not in _NOT_COLUMNS}
        self.rows = [DraftRow(r) for r in table.select(list(self.types)).to_pylist()]
        _check_rows(self.rows)
        self.metadata: Metadata = trace.metadata
        e = trace.edges
        columns = (e.src, e.dst, e.kind, e.form, e.lag)
        self.edges: list[Edge] = [
            (self.rows[a], self.rows[b], kind, form, lag)
            for a, b, kind, form, lag in zip(*(c.tolist() for c in columns), strict=True)
        ]

    def row(self, **attributes: Any) -> DraftRow:
        """A new row, which is in no place yet."""
        return DraftRow({**dict.fromkeys(self.types), "is_cpu_op": False, "step": 0, **attributes})

    def wait(
        self, row: DraftRow, sources: Iterable[DraftRow], kind: EdgeKind = EdgeKind.DATA
    ) -> None:
        """A row starts when others have ended."""
        start = int(EdgeForm.FINISH_START)
        self.edges += [(source, row, int(kind), start, 0) for source in dict.fromkeys(sources)]

    def sources(self, row: DraftRow) -> list[DraftRow]:
        """The rows that a row waits for because of their data."""
        return [e[0] for e in self.edges if e[1] is row and e[2] != EdgeKind.CTRL]

    def keep(self, wanted: Callable[[DraftRow], bool]) -> None:
        """Drops all other rows."""
        self.rows = [r for r in self.rows if wanted(r)]

    def in_order(self) -> None:
        """Control edges that keep the rows of every stream in their order, in place of those that did."""
        self.edges = [e for e in self.edges if e[2] != EdgeKind.CTRL]
        known = {(e[0], e[1]) for e in self.edges}
        last: dict[int, DraftRow] = {}
        for row in self.rows:
            stream = int(row["stream"])
            before = last.get(stream)
            if before is not None and stream < MESSAGES and (before, row) not in known:
                self.wait(row, [before], EdgeKind.CTRL)
            last[stream] = row

    def trace(self) -> Trace:
        """The rows as a trace."""
        place = {row: i for i, row in enumerate(self.rows)}
        data: dict[str, Any] = {}
        for name, kind in self.types.items():
            values = [row.get(name) for row in self.rows]
            if pa.types.is_dictionary(kind):
                data[name] = pa.array(values, pa.string()).dictionary_encode()
            else:
                data[name] = pa.array(values, kind)
        # A global trace that was read from a file has no columns of communication.
        for name in dict.fromkeys(n for row in self.rows for n in row if n not in self.types):
            data[name] = pa.array([row.get(name) for row in self.rows])
        inside = [e for e in self.edges if e[0] in place and e[1] in place]
        pairs = np.array([(place[e[0]], place[e[1]]) for e in inside], np.int32).reshape(-1, 2)
        kinds, forms = (np.array([e[k] for e in inside], np.int8) for k in (2, 3))
        lags = np.array([e[4] for e in inside], np.int64)
        edges = Edges.of(pairs[:, 0], pairs[:, 1], kinds, forms, lags)
        trace = Trace.from_columns(data, edges, self.metadata)
        if cycle := trace.graph.find_cycle():
            name = self.rows[cycle[0]].get("name")
            raise ConfigError(f"in this order node {name!r} would wait for itself; {_GLOBAL}")
        return trace


def _check_rows(rows: list[DraftRow]) -> None:
    """Refuses rows without what directives read of every row."""
    if not rows:
        raise ConfigError(f"the trace has no nodes; {_GLOBAL}")
    for row in rows:
        if lacking := _lacking(row):
            raise ConfigError(f"node {row['name']!r} has no {lacking}; {_GLOBAL}")


def _lacking(row: DraftRow) -> str:
    """What a row lacks; "" for nothing."""
    if row.get("stream") is None:
        return "stream"
    if row.get("micro_batch") is None:
        return ""
    if not 0 <= row["micro_batch"] < _MOST_BATCHES:
        return "usable micro_batch"
    if row.get("phase") is None:
        return "phase"
    if row["type"] == NodeType.COMP_NODE and row.get("tensor_size") is None:
        return "tensor_size"
    is_product = row.get("op_type") == "matmul" and row.get("inputs_shapes")
    if is_product and not (_is_product(shapes_of(row)) and find_type(row.get("dtype") or "")):
        return "two shapes of matrices and known dtype"
    return ""


def _is_product(shapes: list[list[int]]) -> bool:
    return len(shapes) > 1 and all(len(shape) > 1 for shape in shapes[:2])


def is_backward(row: DraftRow) -> bool:
    """Whether a row of a micro-batch is of its way back."""
    return bool(row["phase"] != "forward")


_SHAPE = re.compile(r"\[(\d{1,15}(?:, ?\d{1,15})*)\]")


def shapes_of(row: DraftRow) -> list[list[int]]:
    """The shapes of a row's operands."""
    return [[int(n) for n in s.split(",")] for s in _SHAPE.findall(row["inputs_shapes"])]
