"""Rewrite: one body being changed. Rows are edited, added beside others, or go into others.

Edges follow by themselves. An edge that held back a row's start holds back the first of what took its place;
one that waited for its end waits for the last. Turns among communications, and edges that hold back a row's
end, go to the communications themselves and not to what was put around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from chakrakit.arrays import I32, I64, U64, Mask
from chakrakit.errors import TraceError
from chakrakit.operators import element_bytes
from chakrakit.trace.model import (
    COMMUNICATION,
    STORAGE_TYPES,
    EdgeForm,
    EdgeKind,
    Edges,
    Graph,
    NodeType,
    Trace,
    by_name,
    storage_of_member,
)
from chakrakit.trace.placement import implied_order, ordered_by_edges

# --- columns ------------------------------------------------------------------------------------


def edited(trace: Trace, column: str, edits: list[tuple[int, Any]]) -> pa.Array:
    """Returns a column with these (row, value) set, None for no value.

    A missing column is created from the vocabulary.
    """
    if column in trace.table.column_names:
        values = trace.table.column(column).combine_chunks()
    else:
        kind = STORAGE_TYPES[storage_of_member(by_name()[column].member)]
        values = pa.nulls(len(trace), kind)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return _with_numbers(values, edits) if _is_number(values.type) else _with_others(values, edits)


def _with_others(values: pa.Array, edits: list[tuple[int, Any]]) -> pa.Array:
    plain = values.to_pylist()
    for row, value in edits:
        plain[row] = value
    return pa.array(plain, values.type)


def _with_numbers(values: pa.Array, edits: list[tuple[int, Any]]) -> pa.Array:
    has = values.is_valid().to_numpy(zero_copy_only=False).copy()
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).copy()
    rows = [row for row, _ in edits]
    has[rows] = [value is not None for _, value in edits]
    numbers[rows] = [0 if value is None else value for _, value in edits]
    return pa.array(numbers, values.type, mask=~has)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    )


# --- what waits for what within a body ----------------------------------------------------------


_TURN = [int(k) for k in (EdgeKind.CTRL, EdgeKind.STREAM, EdgeKind.THREAD)]


def is_comm(body: Trace) -> Mask:
    """The rows that communicate."""
    return body.is_type(*COMMUNICATION)


def turn_edges(body: Trace) -> Mask:
    """Which edges say only that one communication takes its turn after another."""
    edges, comm = body.edges, is_comm(body)
    both = comm[edges.src] & comm[edges.dst] & np.isin(edges.kind, _TURN)
    mask: Mask = both & (edges.form == EdgeForm.FINISH_START)
    return mask


def waits(body: Trace) -> tuple[I64, I64, Mask]:
    """Returns pairs of events (start: 2 × row, end: 2 × row + 1), and which pairs are only turns."""
    edges, comm = body.edges, is_comm(body)
    before, after = implied_order(body)
    src = 2 * edges.src.astype(np.int64) + (edges.form != EdgeForm.START_START)
    dst = 2 * edges.dst.astype(np.int64) + (edges.form == EdgeForm.FINISH_FINISH)
    turn = np.r_[turn_edges(body), comm[before] & comm[after]]
    return np.r_[src, 2 * before + 1], np.r_[dst, 2 * after], turn


def highest_before(events: int, src: I64, dst: I64, marks: I64) -> I64:
    """Returns for each event the highest mark of any edge on the paths that lead to it; 0 for none."""
    marked = np.flatnonzero(marks)
    graph = Graph(events + 1, np.r_[src, np.full(len(marked), events)], np.r_[dst, dst[marked]])
    lags = np.r_[np.zeros(len(src), np.int64), marks[marked]]
    distance, _ = graph.longest_path(np.zeros(events + 1, np.int64), lags)
    return distance[:events]


# --- kinds of edges for new work ----------------------------------------------------------------


def order_kind(body: Trace, host: bool) -> EdgeKind:
    """The kind of edge that says this body's work runs after other work of its lane."""
    if not ordered_by_edges(body, host):
        return EdgeKind.CTRL
    return EdgeKind.THREAD if host else EdgeKind.STREAM


def data_kind(body: Trace) -> EdgeKind:
    """The kind of edge that says work reads what other work wrote."""
    return EdgeKind.TENSOR if "edge_kinds" in body.table.column_names else EdgeKind.DATA


_SHARED = (
    "start_time_micros",
    "start_time_ns",
    "is_cpu_op",
    "tid",
    "stream",
    "device",
    "phase",
    "layer",
    "micro_batch",
    "chunk",
    "step",
)
"""Columns that work added for a call copies from the call, because it is issued with it."""


@dataclass(frozen=True)
class _Added:
    """A new row: the existing row it is made for, and whether it goes before (offset < 0) or after it."""

    like: int
    offset: int
    blank: Mapping[str, Any] | None
    """None for a copy; else the columns of a row that is otherwise empty."""


@dataclass
class Rewrite:
    """Collects changes to a body. Added rows are numbered after the old ones; `build` makes the new body.

    `first` and `last` say which row stands for a row's start and end; `turn_first` and `turn_last` say the
    same for edges that are only turns among communications.
    """

    body: Trace
    first: I64 = field(init=False)
    last: I64 = field(init=False)
    turn_first: I64 = field(init=False)
    turn_last: I64 = field(init=False)
    finish_last: I64 = field(init=False)
    """The row whose end finish→finish edges hold back."""

    def __post_init__(self) -> None:
        self.first, self.last, self.turn_first, self.turn_last, self.finish_last = (
            np.arange(len(self.body)) for _ in range(5)
        )
        self._goes = np.zeros(len(self.body), np.bool_)
        self._added: list[_Added] = []
        self._edges: list[tuple[int, int, int, int, int]] = []
        self._dropped = np.zeros(len(self.body.edges), np.bool_)
        self._values: dict[str, dict[int, Any]] = {}
        self._numbers: dict[str, tuple[Mask, NDArray[Any]]] = {}

    # --- what can be done -----------------------------------------------------------------------

    def set(self, column: str, rows: int | Sequence[int], values: Any) -> None:
        """Sets an attribute in these rows; None removes it there."""
        where = [rows] if isinstance(rows, int) else rows
        new_values = values if isinstance(values, list) else [values] * len(where)
        self._values.setdefault(column, {}).update(zip(where, new_values, strict=True))
        if column == "comm_size" and "unsharded" in self.body.table.column_names:
            self.set("unsharded", where, None)  # it described the old size

    def set_duration(self, row: int, nanos: int) -> None:
        """Sets how long a row takes, for readers that do not simulate it."""
        self.set("duration_micros", row, nanos // 1000)
        self.set("duration_ns", row, nanos if nanos % 1000 else None)
        self.set("own_ns", row, None)

    def rename(self, row: int, name: str) -> None:
        """Renames a row."""
        self.set("name", row, name)

    def name(self, row: int) -> str:
        """The name a row has in the body."""
        name: str = self.body.names[row].as_py()
        return name

    def number(self, column: str, row: int) -> int | None:
        """Returns an attribute's value in a row of the body; None where the row does not have it."""
        if column not in self._numbers:
            self._numbers[column] = self.body.has(column), self.body.column(column, 0)
        has, values = self._numbers[column]
        return int(values[row]) if has[row] else None

    def copy(self, row: int, offset: int) -> int:
        """Adds a copy of a row after it (offset > 0) or before it; returns the new row's number."""
        return self._add(_Added(row, offset, None))

    def work(self, row: int, offset: int, **columns: Any) -> int:
        """Adds a compute row before or after a communication; returns the new row's number."""
        return self._add(_Added(row, offset, columns))

    def _add(self, added: _Added) -> int:
        self._added.append(added)
        return len(self.body) + len(self._added) - 1

    def edge(self, src: int, dst: int, kind: EdgeKind) -> None:
        """Adds a finish→start edge between rows as they are numbered here."""
        self._edges.append((src, dst, int(kind), int(kind.usual_form), 0))

    def repeat_edges(self, numbers: Sequence[int], row: int) -> None:
        """Repeats edges of the body with this row as their target."""
        edges = self.body.edges
        for i in numbers:
            self._edges.append(
                (int(edges.src[i]), row, int(edges.kind[i]), int(edges.form[i]), int(edges.lag[i]))
            )

    def drop_edges(self, numbers: ArrayLike) -> None:
        """Removes edges of the body."""
        self._dropped[np.asarray(numbers, np.int64)] = True

    def absorb(self, row: int, into: int) -> None:
        """Removes a row.

        `into` takes its place: it waits for what the row waited for, and others wait for it.
        """
        self._goes[row] = True
        for ends in (self.first, self.last, self.turn_first, self.turn_last, self.finish_last):
            ends[row] = into

    def end_with(self, row: int, last: int) -> None:
        """Makes a row end when another communication ends."""
        self.last[row] = self.turn_last[row] = self.finish_last[row] = last

    # --- the new body ---------------------------------------------------------------------------

    def build(self) -> Trace:
        """Returns the body with all changes."""
        remaining = np.flatnonzero(~self._goes)
        order, ids = self._arranged(remaining)
        place = np.full(len(self.body) + len(self._added), -1, np.int64)
        place[order] = np.arange(len(order))
        rebuilt = self._edited(order, place)
        rebuilt = rebuilt.with_columns({"id": ids}).with_edges(self._wired(place))
        return (
            rebuilt.with_parent(self._parents(order, place))
            if (self.body.parent >= 0).any()
            else rebuilt
        )

    def _parents(self, order: I64, place: I64) -> I32:
        """Returns the parent of each row in the new order.

        An added row has the parent of the row it was made for.
        """
        like = np.r_[np.arange(len(self.body)), np.array([a.like for a in self._added], np.int64)]
        outer = self.body.parent[like[order]]
        return np.where(outer >= 0, place[self.first[outer]], -1).astype(np.int32)

    def _arranged(self, remaining: I64) -> tuple[I64, U64]:
        """Returns the rows in their new order, and their ids; later ids move up to make room."""
        new = np.arange(len(self._added)) + len(self.body)
        rows = np.r_[remaining, new]
        beside = np.r_[remaining, np.array([a.like for a in self._added], np.int64)]
        offset = np.r_[
            np.zeros(len(remaining), np.int64), np.array([a.offset for a in self._added], np.int64)
        ]
        order = np.lexsort((offset, beside))
        ids = self.body.ids[beside]
        by_id = np.lexsort((offset, beside, ids))
        is_new = rows[by_id] >= len(self.body)
        # A row before another takes its id; so do rows after it, one up. Gaps that were there stay.
        before = np.cumsum(is_new) - is_new
        room = before + (is_new & (offset[by_id] > 0))
        moved = np.empty(len(rows), np.uint64)
        moved[by_id] = ids[by_id] + room.astype(np.uint64)
        if len(ids) and int(ids.max()) + len(new) >= 2**64:
            raise TraceError("ids are too near the largest there is to make room for new nodes")
        return rows[order], moved[order]

    def _edited(self, order: I64, place: I64) -> Trace:
        """Returns the rows with their new values; edges are added later."""
        copies = [(len(self.body) + i, a) for i, a in enumerate(self._added) if a.blank is None]
        blanks = [(len(self.body) + i, a) for i, a in enumerate(self._added) if a.blank is not None]
        plain = order[order < len(self.body)]
        like = np.r_[plain, np.array([a.like for _, a in copies], np.int64)]
        rows = np.r_[plain, np.array([n for n, _ in copies], np.int64)]
        trace = Trace(self.body.table.take(pa.array(like)), self.body.layouts, self.body.metadata)
        if blanks:
            trace = Trace.concat([trace, self._blank_rows([a for _, a in blanks])])
            rows = np.r_[rows, np.array([n for n, _ in blanks], np.int64)]
        at = np.argsort(place[rows])
        trace = Trace(trace.table.take(pa.array(at)), trace.layouts, trace.metadata)
        return trace.with_columns({c: self._column(trace, c, place) for c in self._values})

    def _blank_rows(self, added: list[_Added]) -> Trace:
        """Builds new compute rows.

        Columns that they do not set are copied from the communication they serve.
        """
        shared = [c for c in _SHARED if c in self.body.table.column_names]
        like = pa.array([a.like for a in added])
        data: dict[str, Any] = {c: self.body.table.column(c).take(like) for c in shared}
        data["type"] = [int(NodeType.COMP_NODE)] * len(added)
        for column in sorted({c for a in added for c in a.blank or {}}):
            shared_values = data[column].to_pylist() if column in data else [None] * len(added)
            data[column] = [
                (a.blank or {}).get(column, value)
                for a, value in zip(added, shared_values, strict=True)
            ]
        return Trace.from_columns(data)

    def _column(self, trace: Trace, column: str, place: I64) -> pa.Array:
        """A column with its new values."""
        edits = [(int(place[r]), v) for r, v in self._values[column].items() if place[r] >= 0]
        return edited(trace, column, edits)

    # --- its edges ------------------------------------------------------------------------------

    def _wired(self, place: I64) -> Edges:
        edges = self.body.edges
        turn = turn_edges(self.body)
        from_end, to_end = edges.form != EdgeForm.START_START, edges.form == EdgeForm.FINISH_FINISH
        src = np.where(from_end, self.last[edges.src], self.first[edges.src])
        dst = np.where(to_end, self.finish_last[edges.dst], self.first[edges.dst])
        src = np.where(turn, self.turn_last[edges.src], src)
        dst = np.where(turn, self.turn_first[edges.dst], dst)
        touched = (src != edges.src) | (dst != edges.dst)
        stays = ~self._dropped & ~(touched & (src == dst))
        moved = Edges(
            place[src].astype(np.int32),
            place[dst].astype(np.int32),
            edges.kind,
            edges.form,
            edges.lag,
            edges.ctrl,
        ).where(stays)
        src, dst, kind, form, lag = np.array(self._edges, np.int64).reshape(-1, 5).T
        added = Edges.of(
            place[src],
            place[dst],
            kind.astype(np.int8),
            form.astype(np.int8),
            np.ascontiguousarray(lag),
        )
        return _once(
            Edges.concat([moved, added]), np.r_[touched[stays], np.ones(len(added), np.bool_)]
        )


def _once(edges: Edges, touched: Mask) -> Edges:
    """Of edges that a change has made equal, keeps the one with the largest lag."""
    order = np.lexsort((edges.ctrl, -edges.lag, edges.form, edges.src, edges.dst))
    ends = np.stack([edges.src, edges.dst, edges.form])[:, order]
    new = np.r_[True, (ends[:, 1:] != ends[:, :-1]).any(axis=0)][: len(edges)]
    run = np.cumsum(new) - 1
    changed = np.bincount(run, touched[order], minlength=1) > 0
    stays = np.zeros(len(edges), np.bool_)
    stays[order] = new | ~changed[run]
    return edges.where(stays)


# --- bytes of communication in whole elements ---------------------------------------------------


def element_size(body: Trace, row: int) -> int:
    """Bytes of an element of a call's message; 1 where the trace does not say."""
    if "comm_dtype" not in body.table.column_names:
        return 1
    return max(1, int(element_bytes(str(body.table.column("comm_dtype")[row].as_py() or ""))))


def shard_of(body: Trace, row: int, size: int, ranks: int) -> int:
    """Returns one rank's part of `size` bytes, in whole elements, rounded up to be equal on all ranks."""
    each = element_size(body, row)
    each = each if size % each == 0 else 1
    return -(-size // each // ranks) * each


def cut(size: int, parts: int, each: int) -> list[int]:
    """Cuts `size` bytes into parts as even as whole elements allow, the larger ones first."""
    each = each if size % each == 0 else 1
    count, rest = divmod(size // each, parts)
    return [(count + (i < rest)) * each for i in range(parts)]


def add_up(rewrite: Rewrite, into: int, rows: Sequence[int], *columns: str) -> None:
    """Sets columns of row `into` to their sums over `rows`, where any of these rows has a value."""
    for column in columns:
        numbers = [n for row in rows if (n := rewrite.number(column, row)) is not None]
        if numbers:
            rewrite.set(column, into, sum(numbers))
