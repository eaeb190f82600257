"""Node: one row of a trace to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrakit.trace import columns
from chakrakit.trace.edges import EdgeKind
from chakrakit.trace.schema import collective_name, node_type_name

if TYPE_CHECKING:
    from chakrakit.trace.trace import Trace


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A view of one row; it costs nothing until asked. Equal if it is the same row of the same trace."""

    trace: Trace
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
        found = {}
        for column in self.trace.nodes.column_names:
            name, value = columns.attribute_name(column), self.get(column)
            if name is not None and value is not None:
                found[name] = value
        return found

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
        found = graph.out_edges[graph.out_offsets[self.row] : graph.out_offsets[self.row + 1]]
        return [self._end(edges.dst[i], edges.kind[i]) for i in found]

    def _end(self, row: Any, kind: Any) -> tuple[Node, EdgeKind]:
        return Node(self.trace, int(row)), EdgeKind(int(kind))

    def __repr__(self) -> str:
        return f"Node({self.id} {self.name!r} {self.type})"

    def _repr_html_(self) -> str:
        from chakrakit.trace.show import node_html

        return node_html(self)
