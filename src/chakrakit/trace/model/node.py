"""Node: a view of one row of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.results import SHOWN_ROWS, table_html
from chakrakit.trace.model import columns
from chakrakit.trace.model.edges import EdgeKind, Edges
from chakrakit.trace.model.graph import Graph
from chakrakit.trace.model.schema import collective_name, node_type_name


class NodeTable(Protocol):
    """What a node needs from the trace it is a row of."""

    @property
    def table(self) -> pa.Table:
        """All columns."""

    @property
    def nodes(self) -> pa.Table:
        """The columns a reader sees."""

    @property
    def start_ns(self) -> I64:
        """Starts by row."""

    @property
    def duration_ns(self) -> I64:
        """Durations by row."""

    @property
    def edges(self) -> Edges:
        """Dependencies between rows."""

    @property
    def graph(self) -> Graph:
        """The same as a graph."""


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A view of one row, which reads what it is asked for. Views of the same row of a trace are equal."""

    trace: NodeTable
    row: int

    def get(self, column: str, default: Any = None) -> Any:
        """A field or attribute by its column name."""
        if column not in self.trace.table.column_names:
            return default
        value = self.trace.table.column(column)[self.row].as_py()
        return default if value is None else value

    @property
    def id(self) -> int:
        """The node's id in the file."""
        return int(self.get("id"))

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.get("name"))

    @property
    def type(self) -> str:
        """The name of its type, such as COMP_NODE."""
        return node_type_name(self.get("type"))

    @property
    def start_ns(self) -> int:
        """Start in nanoseconds."""
        return int(self.trace.start_ns[self.row])

    @property
    def duration_ns(self) -> int:
        """Duration in nanoseconds."""
        return int(self.trace.duration_ns[self.row])

    @property
    def collective(self) -> str | None:
        """The kind of collective, such as ALL_REDUCE."""
        code = self.get("comm_type")
        return None if code is None else collective_name(code)

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes this node has, by name. Those kept raw are not among them."""
        values = {}
        for column in self.trace.nodes.column_names:
            name, value = columns.attribute_name(column), self.get(column)
            if name is not None and value is not None:
                values[name] = value
        return values

    @property
    def parents(self) -> list[tuple[Node, EdgeKind]]:
        """The nodes this one depends on, with the kind of each edge."""
        edges = self.trace.edges
        at = np.searchsorted(edges.dst, [self.row, self.row + 1])
        return [self._end(edges.src[i], edges.kind[i]) for i in range(at[0], at[1])]

    @property
    def children(self) -> list[tuple[Node, EdgeKind]]:
        """The nodes that depend on this one, with the kind of each edge."""
        graph, edges = self.trace.graph, self.trace.edges
        edge_numbers = graph.out_edges[
            graph.out_offsets[self.row] : graph.out_offsets[self.row + 1]
        ]
        return [self._end(edges.dst[i], edges.kind[i]) for i in edge_numbers]

    def _end(self, row: Any, kind: Any) -> tuple[Node, EdgeKind]:
        return Node(self.trace, int(row)), EdgeKind(int(kind))

    def __repr__(self) -> str:
        return f"Node({self.id} {self.name!r} {self.type})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("type", self.type),
            ("duration", f"{self.duration_ns:,} ns"),
        ]
        rows += [(name, str(value)[:200]) for name, value in self.attributes.items()]
        parents = self.parents[:SHOWN_ROWS]
        rows += [("depends on", f"{p.id} {p.name} ({k.name.lower()})") for p, k in parents]
        return table_html(("", ""), rows, f"{self.id} {self.name}")
