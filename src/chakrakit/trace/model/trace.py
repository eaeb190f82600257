"""Trace: one rank's program as a table of nodes. It knows no file format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from chakrakit.arrays import I32, I64, U64, Mask
from chakrakit.errors import MissingExtra, TraceError, nearest
from chakrakit.results import SHOWN_ROWS, table_html
from chakrakit.trace.model import columns, nesting
from chakrakit.trace.model.edges import (
    EdgeForm,
    EdgeKind,
    Edges,
    ResolvedDependencies,
    check_range,
    column,
    columns_from,
)
from chakrakit.trace.model.graph import Graph
from chakrakit.trace.model.layouts import HAS_INPUTS, HAS_OUTPUTS, Layout, Layouts, without_raw
from chakrakit.trace.model.metadata import Metadata
from chakrakit.trace.model.node import Node, NodeTable
from chakrakit.trace.model.schema import COMMUNICATION, Member, NodeType, node_type_name
from chakrakit.trace.model.vocabulary import by_name


def networkx_graph(trace: NodeTable) -> Any:
    """A MultiDiGraph over node ids, with names, types and durations, and with kinds and lags of edges."""
    try:
        import networkx
    except ModuleNotFoundError:
        raise MissingExtra("to_networkx", "networkx") from None
    graph = networkx.MultiDiGraph()
    ids = trace.table.column("id").to_pylist()
    names = trace.table.column("name").to_pylist()
    types = trace.table.column("type").to_pylist()
    for row, (node, name, kind) in enumerate(zip(ids, names, types, strict=True)):
        duration = int(trace.duration_ns[row])
        graph.add_node(node, name=name, type=node_type_name(kind), duration_ns=duration)
    edges = trace.edges
    for src, dst, kind, form, lag in zip(
        edges.src, edges.dst, edges.kind, edges.form, edges.lag, strict=True
    ):
        names_of = {"kind": EdgeKind(int(kind)).name, "form": EdgeForm(int(form)).name}
        graph.add_edge(ids[src], ids[dst], **names_of, lag_ns=int(lag))
    return graph


PARENT_COLUMNS = ("parent", "caller")
"""Columns that name the node a row runs inside of; earlier versions wrote `caller`."""
_WORK = (NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE, *COMMUNICATION)

_FAR_NS = 1 << 62
"""Two times below this have a sum that fits."""


class Trace:
    """An immutable table of nodes with dependencies between them.

    `nodes` is the table (Arrow, one row per node, in file order); see ARCHITECTURE.md for its columns.
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
        self._texts: dict[str, tuple[I32, list[str]]] = {}

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
        rows = columns.length(data)
        table = columns.fields(data, rows)
        attributes = {n: v for n, v in data.items() if n not in table}
        table["_layout"] = pa.array(np.zeros(rows, np.int32))
        io = sum(
            flag
            for side, flag in (("inputs", HAS_INPUTS), ("outputs", HAS_OUTPUTS))
            if any(c.startswith(side) for c in data if c in columns.IO_COLUMNS)
        )
        trace = cls(pa.table(table), Layouts((Layout(io),)), metadata)
        trace = trace.with_columns(attributes, members)
        return trace if edges is None else trace.with_edges(edges)

    @classmethod
    def with_layouts(
        cls, data: Mapping[str, Any], numbers: I32, layouts: Layouts, metadata: Metadata
    ) -> Trace:
        """A trace from columns and the number of each row's layout, both of which the caller checks."""
        rows = columns.length(data)
        table = columns.fields(data, rows)
        for name, values in data.items():
            if name not in table and not name.startswith("_"):
                table[name] = columns.attribute(name, values, rows)
        private = {n: v for n, v in data.items() if n.startswith("_")}
        return cls(pa.table({**table, **private, "_layout": numbers}), layouts, metadata)

    @classmethod
    def concat(cls, parts: Iterable[Trace]) -> Trace:
        """The nodes of all parts one after another; the first part's metadata."""
        tables, layouts, metadata = [], Layouts(()), None
        types: dict[str, pa.DataType] = {}
        for part in parts:
            _check_types(types, part.table.schema)
            metadata = metadata or part.metadata
            layouts, renumbered = layouts.merge(part.layouts)
            rows = renumbered[part.layout_rows]
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
    def ids(self) -> U64:
        """Node ids by row."""
        return self.column("id")

    @cached_property
    def column_names(self) -> frozenset[str]:
        """The columns that the table has; Arrow makes a new list of them at every question."""
        return frozenset(self.table.column_names)

    @cached_property
    def types(self) -> I32:
        """NodeType numbers by row."""
        return self.column("type")

    @property
    def names(self) -> pa.ChunkedArray:
        """Node names by row, dictionary-encoded."""
        return self.table.column("name")

    def texts(self, name: str) -> tuple[I32, list[str]]:
        """A text column as one code per row and the text of each code; -1 where a node has none."""
        if name not in self.column_names:
            return np.full(len(self), -1, np.int32), []
        if name not in self._texts:
            array = self.table.column(name).combine_chunks()
            coded = array if hasattr(array, "indices") else array.dictionary_encode()
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            self._texts[name] = codes, coded.dictionary.to_pylist()
        return self._texts[name]

    def column(self, name: str, default: Any = None) -> NDArray[Any]:
        """A column as numpy. Where it is null or missing, `default`; without one that is an error.

        A name that no node has and that the vocabulary does not know is an error in any case.
        """
        if name not in self.column_names:
            if default is None or not columns.is_known(name):
                raise TraceError(f"no node has {name!r}; {nearest(name, self._names_to_ask_for)}")
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

    @property
    def _names_to_ask_for(self) -> list[str]:
        return list(dict.fromkeys([*self.nodes.column_names, *by_name()]))

    def has(self, name: str) -> Mask:
        """For each row, whether it has this attribute or field."""
        if name not in self.column_names:
            return np.zeros(len(self), np.bool_)
        values = self.table.column(name)
        if not values.null_count:
            return np.ones(len(self), np.bool_)
        mask: Mask = values.is_valid().to_numpy()
        return mask

    def node(self, node_id: int) -> Node:
        """The node with this id."""
        row = self._row_of(node_id)
        if row is None:
            raise TraceError(f"no node has id {node_id}; {self._ids_near(node_id)}")
        return self[row]

    def _ids_near(self, node_id: int) -> str:
        """The ids next to one that no node has, for a message."""
        ids = self.ids[self._by_id].tolist()
        at = bisect_left(ids, node_id)
        near = ids[max(0, at - 1) : at + 1]
        return f"the nearest are {' and '.join(map(str, near))}" if near else "there are none"

    @cached_property
    def _by_id(self) -> NDArray[np.intp]:
        return np.argsort(self.ids, kind="stable")

    def _row_of(self, node_id: int) -> int | None:
        """The row of an id, None where no node has it; of equal ids the first row counts."""
        if not 0 <= node_id < 2**64:
            return None
        key = np.uint64(node_id)
        place = int(np.searchsorted(self.ids, key, sorter=self._by_id))
        if place == len(self) or self.ids[self._by_id[place]] != key:
            return None
        return int(self._by_id[place])

    def __getitem__(self, row: int) -> Node:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of a trace of {len(self):,} nodes")
        return Node(self, row % len(self))

    @cached_property
    def _resolved(self) -> ResolvedDependencies:
        return ResolvedDependencies.of(self.table, self.ids)

    @cached_property
    def edges(self) -> Edges:
        """Dependencies between rows, sorted by target; within a row data_deps come first."""
        return self._resolved.edges()

    @cached_property
    def graph(self) -> Graph:
        """All edges as a graph over rows."""
        return Graph(len(self), self.edges.src, self.edges.dst)

    @property
    def is_dangling(self) -> bool:
        """Whether a node depends on an id that no node has."""
        return bool((self._resolved.src < 0).any())

    def recall(self, **derived: Any) -> None:
        """Takes what is derived from the table on first use from who has derived it already."""
        self.__dict__.update(derived)

    @property
    def dangling(self) -> pa.Table:
        """Dependencies on ids that no node has: row, id, ctrl."""
        deps, missing = self._resolved.deps, self._resolved.dangling
        return pa.table(
            {"row": deps.dst[missing], "id": deps.ids[missing], "ctrl": deps.ctrl[missing]}
        )

    # --- time ---------------------------------------------------------------------------------

    @cached_property
    def start_ns(self) -> I64:
        """Start in nanoseconds: `start_time_ns` where a node has it, else its microseconds."""
        return self._exact("start_time_ns", "start_time_micros")

    @cached_property
    def duration_ns(self) -> I64:
        """Duration in nanoseconds: `duration_ns` where a node has it, else its microseconds."""
        return self._exact("duration_ns", "duration_micros")

    @cached_property
    def own_ns(self) -> I64:
        """What a scheduler takes as a node's duration: `own_ns` where a node has it, else its duration."""
        if "own_ns" not in self.column_names:
            return self.duration_ns
        durations: I64 = np.where(self.has("own_ns"), self.column("own_ns", 0), self.duration_ns)
        return durations

    @property
    def end_ns(self) -> I64:
        """Start plus duration, or the largest time there is."""
        if self.start_ns.max(initial=0) < _FAR_NS and self.duration_ns.max(initial=0) < _FAR_NS:
            return self.start_ns + self.duration_ns
        room = np.iinfo(np.int64).max - np.maximum(self.start_ns, 0)
        end: I64 = self.start_ns + np.minimum(self.duration_ns, room)
        return end

    def _exact(self, nanos: str, micros: str) -> I64:
        if nanos in self.column_names and not self.table.column(nanos).null_count:
            return np.asarray(self.column(nanos), np.int64)
        coarse = np.minimum(self.column(micros), np.uint64(2**63 // 1000 - 1)).astype(np.int64)
        if nanos not in self.column_names:
            return np.asarray(coarse * 1000, np.int64)
        exact: I64 = np.where(self.has(nanos), self.column(nanos, 0), coarse * 1000)
        return exact

    @property
    def is_timed(self) -> bool:
        """Whether any node says when it started."""
        return bool(self.has("start_time_ns").any() or self.column("start_time_micros").any())

    # --- where a row runs ---------------------------------------------------------------------

    @cached_property
    def on_host(self) -> Mask:
        """Rows that run on the host; a row that does not say so runs on a device."""
        if "is_cpu_op" not in self.column_names:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.column("is_cpu_op", False), np.bool_)

    @cached_property
    def parent(self) -> I32:
        """The row that each host row runs inside of; -1 for none and for rows of a device.

        It is what the nodes say, whatever times a simulator or a replay gives them. Where none says it,
        it is derived once: from the times on each thread, or, without times, from calls (see nesting.py).
        """
        for name in PARENT_COLUMNS:
            has_parent = self.has(name)
            if has_parent.any():
                parent_ids = self.column(name, 0).astype(np.uint64)
                return nesting.parents_by_id(self.ids, parent_ids, has_parent)
        threaded = self.on_host & self.has("tid")
        if not threaded.any():
            return np.full(len(self), -1, np.int32)
        if not self.is_timed:
            return nesting.parents_by_calls(self.edges, threaded)
        thread = self.column("tid", 0)
        return nesting.parents_by_time(thread, self.start_ns, self.end_ns, threaded)

    @cached_property
    def step(self) -> I64:
        """The number of the step that each row belongs to; -1 where it belongs to none.

        It is what the nodes say. Where none says it, it is derived once: work that repeats is numbered,
        that of the device, or, where nothing runs on one, that of the host's innermost rows. A host row
        belongs to the step of what it launches next on its thread.
        """
        if self.has("step").any():
            return np.asarray(self.column("step", -1), np.int64)
        works = self.is_type(*_WORK) & ~self.column("orphan", False).astype(np.bool_)
        device = works & ~self.on_host
        worker = device if device.any() else works & self._is_innermost
        number = nesting.repeating_steps(self.texts("name")[0], self.start_ns, worker)
        if not (number >= 0).any():
            return number
        launch = self.edges.where(self.edges.kind == EdgeKind.LAUNCH)
        number[launch.src] = number[launch.dst]
        return nesting.filled(number, self.start_ns, self.column("tid", 0), self.on_host)

    @property
    def _is_innermost(self) -> Mask:
        """Rows with nothing inside."""
        innermost = np.ones(len(self), np.bool_)
        innermost[self.parent[self.parent >= 0]] = False
        return innermost

    # --- changing it --------------------------------------------------------------------------

    def select(self, rows: ArrayLike) -> Trace:
        """These rows (numbers, or a mask), in the given order, with the edges among them.

        Dependencies on rows left out are dropped; references that dangled before are kept. A row whose
        parent is left out runs inside the nearest row around that which stays.
        """
        row_numbers = self._row_numbers(rows)
        new_row = np.full(len(self), -1, np.int32)
        new_row[row_numbers] = np.arange(len(row_numbers), dtype=np.int32)
        if np.count_nonzero(new_row >= 0) != len(row_numbers):
            raise TraceError("a row is selected twice; ids must stay unique")
        part = Trace(self.table.take(pa.array(row_numbers)), self.layouts, self.metadata)
        part = part._with_dependencies(self._resolved.selected(new_row, len(row_numbers)))
        return self._with_kept_parents(part, row_numbers, new_row)

    def _with_kept_parents(self, part: Trace, row_numbers: I64, new_row: I32) -> Trace:
        """Rows whose parent is left out run inside the nearest row around it that is not."""
        if not any(self.has(name).any() for name in PARENT_COLUMNS):
            return part
        is_kept = new_row >= 0
        if is_kept[self.parent[row_numbers][self.parent[row_numbers] >= 0]].all():
            return part
        outer = nesting.nearest_kept(self.parent, is_kept)[row_numbers]
        return part.with_parent(np.where(outer >= 0, new_row[outer], -1).astype(np.int32))

    def _row_numbers(self, rows: ArrayLike) -> I64:
        selection = np.asarray(rows)
        if selection.dtype == np.bool_:
            if selection.shape != (len(self),):
                raise TraceError(
                    f"a mask of shape {selection.shape} for {len(self):,} nodes; give one value per node"
                )
            return np.flatnonzero(selection)
        numbers = column(selection, np.int64, "rows")
        check_range(numbers, 0, len(self), "rows", f"the trace has {len(self):,} nodes")
        return numbers

    def with_columns(
        self, data: Mapping[str, Any], members: Mapping[str, Member] | None = None
    ) -> Trace:
        """The same with these columns added or replaced; None removes an attribute.

        A new `id` does not change the dependencies of other nodes on the old one. An attribute keeps
        its place and oneof member in the rows that had it, unless `members` names another or the
        values do not fit it.
        """
        trace = self
        for name, values in data.items():
            if name in columns.FIELD_TYPES:
                trace = trace._with_field(name, values)
            else:
                trace = trace._with_attribute(name, values, (members or {}).get(name))
        return trace

    def _with_field(self, name: str, values: Any) -> Trace:
        if values is None and name in columns.IO_COLUMNS:
            table = self.table.drop_columns([c for c in self.table.column_names if c == name])
        else:
            table = _replace(self.table, name, columns.field(name, values, len(self)))
        return Trace(table, self.layouts, self.metadata)

    def _with_attribute(self, name: str, values: Any, member: Member | None) -> Trace:
        attribute = columns.attribute_name(name)
        if attribute is None:
            raise TraceError(f"column {name!r} is private; attributes start with a letter")
        if any("\ud800" <= letter <= "\udfff" for letter in attribute):
            raise TraceError(f"attribute {attribute!a}: half a surrogate pair is not text")
        column = columns.column_name(attribute)
        table, layouts, rows = without_raw(self.table, self.layouts, self.layout_rows, attribute)
        if values is None:
            table = table.drop_columns([column]) if column in table.column_names else table
            layouts, rows = layouts.edited(rows, attribute, np.zeros(len(self), np.bool_), 0, ())
            return Trace(_replace(table, "_layout", pa.array(rows)), layouts, self.metadata)
        array = columns.attribute(column, values, len(self))
        present = array.is_valid().to_numpy(zero_copy_only=False)
        target_member = member or columns.member_for(attribute, array.type)
        fitting = columns.members_that_hold(array)
        if target_member not in fitting:
            raise TraceError(
                f"attribute {attribute!r}: values of type {array.type} do not fit {target_member.name}; "
                "give other values, or another member in `members`"
            )
        allowed_members = {target_member} if member else fitting
        layouts, rows = layouts.edited(rows, attribute, present, target_member, allowed_members)
        table = _replace(_replace(table, column, array), "_layout", pa.array(rows))
        return Trace(table, layouts, self.metadata)

    def with_edges(self, edges: Edges) -> Trace:
        """The same with these dependencies instead; references that dangled are dropped."""
        if len(edges) and max(int(edges.src.max()), int(edges.dst.max())) >= len(self):
            raise TraceError(f"an edge names a row beyond the last of {len(self):,}")
        return self._with_dependencies(columns_from(self.ids, edges))

    def _with_dependencies(self, edge_columns: Mapping[str, pa.Array | None]) -> Trace:
        changes = {
            n: c for n, c in edge_columns.items() if c is not None or n in self.table.column_names
        }
        return self.with_columns(changes)

    def with_parent(self, parent: I32) -> Trace:
        """The same, each row inside the one that `parent` names by its row; -1 for none."""
        inside = parent >= 0
        if not inside.any():
            return self.with_columns(dict.fromkeys(PARENT_COLUMNS))
        ids = pa.array(self.ids[parent], mask=~inside)
        return self.with_columns({"parent": ids, "caller": None})

    def with_nesting(self) -> Trace:
        """The same with `parent` and `step` in its nodes; for code that is about to change the times."""
        trace = self
        if not self.has("parent").any() and (self.parent >= 0).any():
            trace = trace.with_parent(self.parent)
        if not self.has("step").any() and (self.step >= 0).any():
            trace = trace.with_columns({"step": pa.array(self.step, mask=self.step < 0)})
        return trace

    def with_metadata(self, metadata: Metadata) -> Trace:
        """The same with another header."""
        return Trace(self.table, self.layouts, metadata)

    @property
    def layout_rows(self) -> I32:
        """The number of each row's layout among `layouts`."""
        rows: I32 = self.table.column("_layout").to_numpy()
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
        rows = (
            (n.id, n.name[:60], n.type, f"{n.duration_ns / 1000:,.3f}", len(n.parents))
            for n in (self[i] for i in range(min(SHOWN_ROWS, len(self))))
        )
        more = f" · first {SHOWN_ROWS} shown" if len(self) > SHOWN_ROWS else ""
        return table_html(("id", "name", "type", "µs", "dependencies"), rows, repr(self) + more)

    def to_networkx(self) -> Any:
        """The graph over node ids as a `networkx.MultiDiGraph`; needs networkx."""
        return networkx_graph(self)

    def is_type(self, *types: int) -> Mask:
        """Mask of the rows of these types."""
        mask = np.zeros(len(self), np.bool_)
        for kind in types:  # a handful: comparing is faster than a search in a set of them
            mask |= self.types == int(kind)
        return mask


def _check_types(types: dict[str, pa.DataType], schema: pa.Schema) -> None:
    for field in schema:
        if types.setdefault(field.name, field.type) != field.type:
            raise TraceError(
                f"{field.name!r} is {types[field.name]} in one part and {field.type} in another; "
                "convert one of them with with_columns"
            )


def _replace(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)
