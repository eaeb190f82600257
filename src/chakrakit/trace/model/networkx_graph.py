"""A trace's graph for networkx, with names, types and durations on nodes, kinds and lags on edges."""

from __future__ import annotations

from typing import Any

from chakrakit.errors import MissingExtra
from chakrakit.trace.model.edges import EdgeForm, EdgeKind
from chakrakit.trace.model.node import NodeTable
from chakrakit.trace.model.schema import node_type_name


def networkx_graph(trace: NodeTable) -> Any:
    """A MultiDiGraph over node ids; parallel edges of different kinds are kept."""
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
