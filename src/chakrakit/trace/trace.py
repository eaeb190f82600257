"""Trace: one rank's program as a table of nodes. It knows no file format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from chakrakit.errors import TraceError
from chakrakit.trace import columns, dependencies, raw
from chakrakit.trace.edges import Edges
from chakrakit.trace.layouts import HAS_INPUTS, HAS_OUTPUTS, Layout, Layouts
from chakrakit.trace.metadata import Metadata
from chakrakit.trace.schema import Member, NodeType, node_type_name
from chakrakit.trace.vocabulary import by_name

if TYPE_CHECKING:
    from chakrakit.trace.graph import Graph
    from chakrakit.trace.node import Node

_DEFAULTS: dict[str, Any] = {"start_time_micros": 0, "duration_micros": 0, "type": 0, "name": ""}


class Trace:
    """An immutable table of nodes with dependencies between them.

    `nodes` is the table (Arrow, a row a node, in file order); see ARCHITECTURE.md for its columns.
    Every change gives a new Trace that shares what did not change. Dependencies are kept as ids, so
    that a trace with references to nodes it does not have loads, shows and is written back the same;
    `edges`, `graph` and `dangling` are derived from them on first use.
    """

    def __init__(
        self, table: pa.Table, layouts: Layouts | None = None, metadata: Metadata | None = None
    ) -> None:
        self.table = table
        self.layouts = layouts or Layouts()
        self.metadata = metadata or Metadata()

    # --- making one ---------------------------------------------------------------------------

    @classmethod
    def from_columns(
        cls,
        data: Mapping[str, Any],
        edges: Edges | None = None,
        metadata: Metadata | None = None,
        members: Mapping[str, Member] | None = None,
    ) -> Trace:
        """A trace from arrays of equal length, keyed by column name.

        `id` is by default 0, 1, …; `name`, `type` and the times may be left out. Anything that is not
        a field of a node becomes an attribute; nulls (None, masked) mean a row does not have it.
        `edges` refer to rows. `members` overrides the oneof member an attribute is written as.
        """
        rows = _length(data)
        table = {name: _field(name, data.get(name), rows) for name in columns.FIELD_TYPES
                 if name in data or name not in columns.IO_COLUMNS}  # fmt: skip
        table["_layout"] = pa.array(np.zeros(rows, np.int32))
        attributes = {n: v for n, v in data.items() if n not in table}
        io = sum(flag for side, flag in (("inputs", HAS_INPUTS), ("outputs", HAS_OUTPUTS))
                 if any(c.startswith(side) for c in data if c in columns.IO_COLUMNS))  # fmt: skip
        trace = cls(pa.table(table), Layouts((Layout(io),)), metadata)
        trace = trace.with_columns(attributes, members)
        return trace if edges is None else trace.with_edges(edges)

    @classmethod
    def concat(cls, parts: Iterable[Trace]) -> Trace:
        """The nodes of all parts one after another; the first part's metadata."""
        tables, layouts, metadata = [], Layouts(()), None
        for part in parts:
            metadata = metadata or part.metadata
            layouts, renumbered = layouts.merge(part.layouts)
            rows = renumbered[part._layout_rows]
            tables.append(_replace(part.table, "_layout", pa.array(rows)))
        if not tables:
            raise TraceError("no parts to put together")
        try:
            table = pa.concat_tables(tables, promote_options="default")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TraceError(f"the parts differ in an attribute's type: {error}") from None
        return cls(table.unify_dictionaries(), layouts, metadata)

    # --- looking at it ------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def nodes(self) -> pa.Table:
        """The table without the private columns."""
        return self.table.select([c for c in self.table.column_names if not c.startswith("_")])

    @cached_property
    def ids(self) -> NDArray[np.uint64]:
        """Node ids by row."""
        return self.column("id")

    @property
    def types(self) -> NDArray[np.int32]:
        """NodeType numbers by row."""
        return self.column("type")

    @property
    def names(self) -> pa.ChunkedArray:
        """Node names by row, dictionary-encoded."""
        return self.table.column("name")

    def column(self, name: str, default: Any = None) -> NDArray[Any]:
        """A column as numpy. Where it is null or missing, `default`; without one that is an error."""
        if name not in self.table.column_names:
            if default is None:
                raise TraceError(
                    f"no node has {name!r}; there are {', '.join(self.nodes.column_names)}"
                )
            return np.full(len(self), default)
        values = self.table.column(name)
        if values.null_count:
            if default is None:
                raise TraceError(
                    f"{values.null_count:,} nodes have no {name!r}; pass a default for them"
                )
            values = values.fill_null(pa.scalar(default, values.type))
        array: NDArray[Any] = values.to_numpy()
        return array

    def has(self, name: str) -> NDArray[np.bool_]:
        """For each row, whether it has this attribute or field."""
        if name not in self.table.column_names:
            return np.zeros(len(self), np.bool_)
        mask: NDArray[np.bool_] = self.table.column(name).is_valid().to_numpy()
        return mask

    def node(self, node_id: int) -> Node:
        """The node with this id."""
        row = int(dependencies.resolve(self.ids, np.array([node_id], np.uint64))[0])
        if row < 0:
            raise TraceError(f"no node has id {node_id}")
        return self[row]

    def __getitem__(self, row: int) -> Node:
        from chakrakit.trace.node import Node

        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a trace of {len(self):,} nodes")
        return Node(self, row % len(self))

    @cached_property
    def _edges(self) -> tuple[Edges, dependencies.Dependencies, NDArray[np.int64]]:
        return dependencies.edges_from(self.table, self.ids)

    @property
    def edges(self) -> Edges:
        """Dependencies between rows, sorted by target; within a row data_deps come first."""
        return self._edges[0]

    @cached_property
    def graph(self) -> Graph:
        """All edges as a graph over rows."""
        from chakrakit.trace.graph import Graph

        return Graph(len(self), self.edges.src, self.edges.dst)

    @property
    def dangling(self) -> pa.Table:
        """Dependencies on ids that no node has: row, id, ctrl."""
        _, deps, missing = self._edges
        return pa.table(
            {"row": deps.dst[missing], "id": deps.ids[missing], "ctrl": deps.ctrl[missing]}
        )

    # --- time ---------------------------------------------------------------------------------

    @cached_property
    def start_ns(self) -> NDArray[np.int64]:
        """Start in nanoseconds: `start_time_ns` where a node has it, else its microseconds."""
        return self._exact("start_time_ns", "start_time_micros")

    @cached_property
    def duration_ns(self) -> NDArray[np.int64]:
        """Duration in nanoseconds: `duration_ns` where a node has it, else its microseconds."""
        return self._exact("duration_ns", "duration_micros")

    @property
    def end_ns(self) -> NDArray[np.int64]:
        """Start plus duration."""
        return self.start_ns + self.duration_ns

    def _exact(self, nanos: str, micros: str) -> NDArray[np.int64]:
        coarse = np.minimum(self.column(micros), np.uint64(2**63 // 1000 - 1)).astype(np.int64)
        if nanos not in self.table.column_names:
            return np.asarray(coarse * 1000, np.int64)
        exact: NDArray[np.int64] = np.where(self.has(nanos), self.column(nanos, 0), coarse * 1000)
        return exact

    @property
    def is_timed(self) -> bool:
        """Whether any node says when it started."""
        return bool(self.has("start_time_ns").any() or self.column("start_time_micros").any())

    # --- changing it --------------------------------------------------------------------------

    def select(self, rows: ArrayLike) -> Trace:
        """These rows (numbers, or a mask), in the given order, with the edges among them.

        Dependencies on rows left out are dropped; references that dangled before are kept.
        """
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            if len(chosen) != len(self):
                raise TraceError(f"a mask of {len(chosen):,} rows for {len(self):,} nodes")
            chosen = np.flatnonzero(chosen)
        kept = self.table.take(pa.array(chosen.astype(np.int64)))
        new_row = np.full(len(self), -1, np.int32)
        new_row[chosen] = np.arange(len(chosen), dtype=np.int32)
        edges, deps, missing = self._edges
        inside = edges.where((new_row[edges.src] >= 0) & (new_row[edges.dst] >= 0))
        missing = missing[new_row[deps.dst[missing]] >= 0]
        extra: dict[str, NDArray[Any]] = {
            "dst": new_row[deps.dst[missing]],
            "ids": deps.ids[missing],
            "ctrl": deps.ctrl[missing],
        }
        moved = replace(inside, src=new_row[inside.src], dst=new_row[inside.dst])
        part = Trace(kept, self.layouts, self.metadata)
        return part._with_dependencies(dependencies.columns_from(part.ids, moved, extra))

    def with_columns(
        self, data: Mapping[str, Any], members: Mapping[str, Member] | None = None
    ) -> Trace:
        """The same with these columns added or replaced; None removes an attribute."""
        trace = self
        for name, values in data.items():
            if name in columns.FIELD_TYPES:
                column = _field(name, values, len(self))
                trace = Trace(_replace(trace.table, name, column), trace.layouts, trace.metadata)
            else:
                trace = trace._with_attribute(name, values, (members or {}).get(name))
        return trace

    def _with_attribute(self, column: str, values: Any, member: Member | None) -> Trace:
        attribute = columns.attribute_name(column)
        if attribute is None:
            raise TraceError(f"column {column!r} is private; attributes start with a letter")
        table, layouts, rows = raw.without(self.table, self.layouts, self._layout_rows, attribute)
        if values is None:
            table = table.drop_columns([column]) if column in table.column_names else table
            layouts, rows = layouts.edited(rows, attribute, np.zeros(len(self), np.bool_), 0, ())
            return Trace(_replace(table, "_layout", pa.array(rows)), layouts, self.metadata)
        array = _attribute(column, values, len(self))
        present = array.is_valid().to_numpy(zero_copy_only=False)
        wanted = member or columns.member_for(attribute, array.type)
        fitting = columns.members_that_hold(array)
        if wanted not in fitting:
            raise TraceError(f"attribute {attribute!r} has values that {wanted.name} cannot hold")
        kept = {wanted} if member else fitting
        layouts, rows = layouts.edited(rows, attribute, present, wanted, kept)
        table = _replace(_replace(table, column, array), "_layout", pa.array(rows))
        return Trace(table, layouts, self.metadata)

    def with_edges(self, edges: Edges) -> Trace:
        """The same with these dependencies instead; references that dangled are dropped."""
        if len(edges) and max(int(edges.src.max()), int(edges.dst.max())) >= len(self):
            raise TraceError(f"an edge names a row beyond the last of {len(self):,}")
        return self._with_dependencies(dependencies.columns_from(self.ids, edges))

    def _with_dependencies(self, found: Mapping[str, pa.Array | None]) -> Trace:
        wanted = {n: c for n, c in found.items() if c is not None or n in self.table.column_names}
        return self.with_columns(wanted)

    def with_metadata(self, metadata: Metadata) -> Trace:
        """The same with another header."""
        return Trace(self.table, self.layouts, metadata)

    @property
    def _layout_rows(self) -> NDArray[np.int32]:
        rows: NDArray[np.int32] = self.table.column("_layout").to_numpy()
        return rows

    # --- showing it ---------------------------------------------------------------------------

    def type_counts(self) -> dict[str, int]:
        """Number of nodes by type name, in the schema's order."""
        codes, counts = np.unique(self.types, return_counts=True)
        return {node_type_name(int(c)): int(n) for c, n in zip(codes, counts, strict=True)}

    def __repr__(self) -> str:
        kinds = ", ".join(f"{n:,} {t.removesuffix('_NODE')}" for t, n in self.type_counts().items())
        return f"Trace({len(self):,} nodes: {kinds or 'none'})"

    def _repr_html_(self) -> str:
        from chakrakit.trace.show import trace_html

        return trace_html(self)

    def is_type(self, *types: NodeType) -> NDArray[np.bool_]:
        """Mask of the rows of these types."""
        return np.isin(self.types, [int(t) for t in types])


def _length(data: Mapping[str, Any]) -> int:
    sizes = {name: len(values) for name, values in data.items() if values is not None}
    if len(set(sizes.values())) > 1:
        raise TraceError(f"columns differ in length: {sizes}")
    return next(iter(sizes.values()), 0)


def _field(name: str, values: Any, rows: int) -> pa.Array | pa.ChunkedArray:
    """A field of the node in its own type, with its default where it is not given."""
    kind = columns.FIELD_TYPES[name]
    if name == "id" and values is None:
        return pa.array(np.arange(rows, dtype=np.uint64))
    if name.endswith("_deps") and values is None:
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.uint64())
        )
    if values is None:
        values = pa.array([_DEFAULTS[name]] * rows, pa.string() if name == "name" else kind)
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    if len(array) != rows:
        raise TraceError(f"column {name!r} has {len(array):,} values for {rows:,} nodes")
    if array.null_count and name not in columns.IO_COLUMNS:
        raise TraceError(f"column {name!r} has nulls; every node needs one")
    try:
        if name == "name" and not pa.types.is_dictionary(array.type):
            array = array.cast(pa.string()).dictionary_encode()
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise TraceError(f"column {name!r} should be {kind}: {error}") from None


def _attribute(name: str, values: Any, rows: int) -> pa.Array:
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if len(array) != rows:
        raise TraceError(f"column {name!r} has {len(array):,} values for {rows:,} nodes")
    attribute = columns.attribute_name(name) or name
    known = by_name().get(attribute)
    wanted = columns.storage_type(array.type, name)
    if known is not None:
        wanted = columns.STORAGE_TYPES[columns.storage_of_member(known.member)]
    if pa.types.is_list(wanted) and array.type != pa.null() and array.flatten().null_count:
        raise TraceError(f"attribute {name!r} has lists with nulls in them; they cannot be written")
    try:
        return array if array.type == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TraceError(f"attribute {name!r} should be {wanted}: {error}") from None


def _replace(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)
