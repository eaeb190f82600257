"""How traces look in a notebook: small tables, every name escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chakrakit.trace.node import Node
    from chakrakit.trace.trace import Trace
    from chakrakit.trace.traceset import TraceSet

_ROWS = 8
_STYLE = "font-family:monospace;font-size:90%;border-collapse:collapse"


def table_html(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A table with everything escaped."""
    cells = "".join(f"<th style='text-align:left'>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escape(str(c))}</td>" for c in row)
        + "</tr>"
        for row in rows
    )
    return (
        f"<table style='{_STYLE}'><caption style='text-align:left'><b>{escape(caption)}</b></caption>"
        f"<tr>{cells}</tr>{body}</table>"
    )


def trace_html(trace: Trace) -> str:
    """The first nodes of a trace and what it is made of."""
    rows = (
        (n.id, n.name[:60], n.type, f"{n.duration_ns / 1000:,.3f}", _dependencies(n))
        for n in (trace[i] for i in range(min(_ROWS, len(trace))))
    )
    more = f" · first {_ROWS} shown" if len(trace) > _ROWS else ""
    return table_html(("id", "name", "type", "µs", "dependencies"), rows, repr(trace) + more)


def _dependencies(node: Node) -> int:
    return len(node.get("data_deps")) + len(node.get("ctrl_deps"))


def node_html(node: Node) -> str:
    """Everything a node has."""
    rows: list[tuple[str, object]] = [("type", node.type), ("duration", f"{node.duration_ns:,} ns")]
    rows += [(name, str(value)[:200]) for name, value in node.attributes.items()]
    rows += [("depends on", f"{p.id} {p.name} ({k.name.lower()})") for p, k in node.parents[:_ROWS]]
    return table_html(("", ""), rows, f"{node.id} {node.name}")


def traceset_html(traces: TraceSet) -> str:
    """Ranks, bodies and groups."""
    rows = [
        (
            rank,
            binding.body,
            "" if (n := traces.nodes_if_loaded(binding.body)) is None else f"{n:,}",
        )
        for rank, binding in list(traces.bindings.items())[:_ROWS]
    ]
    more = f" · first {_ROWS} ranks shown" if len(traces.ranks) > _ROWS else ""
    return table_html(("rank", "body", "nodes"), rows, repr(traces) + more)
