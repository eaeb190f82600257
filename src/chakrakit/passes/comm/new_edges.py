"""The kinds of edges that say of new work what the body's own edges say of its work."""

from __future__ import annotations

from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import ordered_by_edges


def order_kind(body: Trace, host: bool) -> EdgeKind:
    """The kind of edge that says this body's work runs after other work of its lane."""
    if not ordered_by_edges(body, host):
        return EdgeKind.CTRL
    return EdgeKind.THREAD if host else EdgeKind.STREAM


def data_kind(body: Trace) -> EdgeKind:
    """The kind of edge that says work reads what other work wrote."""
    return EdgeKind.TENSOR if "edge_kinds" in body.table.column_names else EdgeKind.DATA
