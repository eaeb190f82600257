"""A trace's graph as GraphML or DOT text, streamed. All edges are kept, parallel ones too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any, Protocol

import msgspec
import numpy as np

from chakrakit.arrays import U64, Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.patterns import holds
from chakrakit.results import Result
from chakrakit.trace.files import open_output
from chakrakit.trace.model import EdgeForm, EdgeKind, NodeType, Trace, node_type_name

_PIECE = 8192
"""Nodes or edges whose text is made at a time; it bounds memory, and more would not be faster."""
_COLUMNS = ("is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "pg_name", "stream")
_GRAPHML_TYPES = {"uint64": "long", "int64": "long", "bool": "boolean"}


class Exported(Result, msgspec.Struct):
    """What was written."""

    nodes: int
    edges: int
    dangling: int
    """Dependencies of these nodes on ids that no node has: a graph cannot show them."""
    folded: int = 0
    """Ranks of a timeline for which another is drawn that runs the same program at the same times."""
    left_out: dict[str, int] = {}
    """What the format of another tool has no place for: what → how many."""


@dataclass(frozen=True)
class Selection:
    """Which nodes to take: those that meet every condition given."""

    around: int | None = None
    """The id of a node; takes what is within `hops` edges of it, in either direction."""
    hops: int = 2
    types: tuple[str, ...] = ()
    name: str | None = None
    """A regular expression to be found in the name."""

    def rows(self, trace: Trace) -> Mask:
        """Mask of the selected rows."""
        mask = np.ones(len(trace), np.bool_)
        if self.types:
            mask &= trace.is_type(*map(type_code, self.types))
        if self.name is not None:
            mask &= _matching(trace, self.name)
        return mask if self.around is None else mask & _near(trace, self.around, self.hops)


def type_code(name: str) -> int:
    """The number of a node type: 4 for `COMP_NODE` or `COMP`, 42 for `NODE_TYPE_42`."""
    member_name = name.upper().removesuffix("_NODE") + "_NODE"
    if member_name in NodeType.__members__:
        return NodeType[member_name]
    if match := re.fullmatch(r"NODE_TYPE_(-?\d{1,9})", name.upper()):
        return int(match[1])
    raise ConfigError(f"{name!r} is not a node type; {nearest(name, NodeType.__members__)}")


def _matching(trace: Trace, pattern: str) -> Mask:
    try:
        matches = holds(pattern)
    except ValueError as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from None
    names = trace.names.combine_chunks()
    name_matches = np.array([matches(n) for n in names.dictionary.to_pylist()], np.bool_)
    return name_matches[names.indices.to_numpy()] if len(trace) else np.zeros(0, np.bool_)


def _near(trace: Trace, node_id: int, hops: int) -> Mask:
    edges = trace.edges
    reached = np.zeros(len(trace), np.bool_)
    reached[trace.node(node_id).row] = True
    for _ in range(hops):
        before = np.count_nonzero(reached)
        out, back = edges.dst[reached[edges.src]], edges.src[reached[edges.dst]]
        reached[out] = reached[back] = True
        if np.count_nonzero(reached) == before:
            break
    return reached


def export(
    trace: Trace, path: str | os.PathLike[str], selection: Selection | None = None
) -> Exported:
    """Writes the graph in the format of the name's suffix, `.graphml` or `.dot`."""
    kind = _format_of(os.fspath(path))
    mask = (selection or Selection()).rows(trace)
    part = trace if mask.all() else trace.select(mask)
    with open_output(path, binary_only=False) as stream:
        for text in _text(kind(), part):
            stream.write(text.encode())
    return Exported(len(part), len(part.edges), part.dangling.num_rows)


def _format_of(path: str) -> type[_Format]:
    plain = re.sub(r"\.(gz|zst)$", "", path)
    for suffix, kind in ((".graphml", _GraphMl), (".dot", _Dot), (".gv", _Dot)):
        if plain.endswith(suffix):
            return kind
    raise ConfigError(
        f"{path}: cannot tell the format from the name; use .graphml or .dot for a "
        "graph, .pftrace or .json (also .gz) for the timeline of a run"
    )


class _Format(Protocol):
    def head(self, trace: Trace, columns: list[str]) -> str: ...

    def node(self, key: int, node: dict[str, Any]) -> str: ...

    def edge(self, src: int, dst: int, kind: str, form: str, lag: int, ctrl: bool) -> str: ...

    def footer(self) -> str: ...


def _text(form: _Format, trace: Trace) -> Iterator[str]:
    """The document in pieces of some thousand nodes or edges."""
    columns = [c for c in _COLUMNS if c in trace.table.column_names]
    keys = _keys(trace)
    yield form.head(trace, columns)
    for first in range(0, len(trace), _PIECE):
        rows = _node_rows(trace, columns, first)
        yield "".join(map(form.node, keys[first : first + _PIECE].tolist(), rows))
    for first in range(0, len(trace.edges), _PIECE):
        yield "".join(form.edge(*edge) for edge in _edge_rows(trace, keys, first))
    yield form.footer()


def _keys(trace: Trace) -> U64:
    """What nodes are called: their ids, or their rows where two nodes have one id."""
    if len(np.unique(trace.ids)) == len(trace):
        return trace.ids
    return np.arange(len(trace), dtype=np.uint64)


def _node_rows(trace: Trace, columns: list[str], first: int) -> Iterator[dict[str, Any]]:
    piece = trace.table.slice(first, _PIECE)
    values = {c: piece.column(c).to_pylist() for c in ("id", "name", "type", *columns)}
    values["type"] = [node_type_name(t) for t in values["type"]]
    values["start_ns"] = trace.start_ns[first : first + _PIECE].tolist()
    values["duration_ns"] = trace.duration_ns[first : first + _PIECE].tolist()
    names = list(values)
    for row in zip(*values.values(), strict=True):
        yield dict(zip(names, row, strict=True))


def _edge_rows(
    trace: Trace, keys: U64, first: int
) -> Iterator[tuple[int, int, str, str, int, bool]]:
    edges, part = trace.edges, slice(first, first + _PIECE)
    return zip(
        keys[edges.src[part]].tolist(),
        keys[edges.dst[part]].tolist(),
        (_KINDS[k] for k in edges.kind[part].tolist()),
        (_FORMS[f] for f in edges.form[part].tolist()),
        edges.lag[part].tolist(),
        edges.ctrl[part].tolist(),
        strict=True,
    )


_KINDS = [k.name.lower() for k in EdgeKind]
_FORMS = [f.name.lower() for f in EdgeForm]


@cache
def _illegal() -> re.Pattern[str]:
    """Characters that XML cannot hold; compiled by need, since it takes 5 ms."""
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(value: object) -> str:
    """Escaped; characters that XML cannot hold become the replacement character."""
    return escape(_illegal().sub("\ufffd", str(value)), quote=False).replace('"', "&quot;")


class _GraphMl:
    """GraphML, with nodes and edges keyed by name."""

    def __init__(self) -> None:
        self._edges = 0

    def head(self, trace: Trace, columns: list[str]) -> str:
        fields = {
            "id": "long",
            "name": "string",
            "type": "string",
            "start_ns": "long",
            "duration_ns": "long",
        }
        for c in columns:
            fields[c] = _GRAPHML_TYPES.get(str(trace.table.schema.field(c).type), "string")
        edges = {"kind": "string", "form": "string", "lag_ns": "long", "ctrl": "boolean"}
        keys = [_key("node", n, t) for n, t in fields.items()]
        keys += [_key("edge", n, t) for n, t in edges.items()]
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
            + "".join(keys)
            + '<graph id="trace" edgedefault="directed">\n'
        )

    def node(self, key: int, node: dict[str, Any]) -> str:
        data = "".join(_data("node", n, v) for n, v in node.items() if v is not None)
        return f'<node id="n{key}">{data}</node>\n'

    def edge(self, src: int, dst: int, kind: str, form: str, lag: int, ctrl: bool) -> str:
        self._edges += 1
        data = _data("edge", "kind", kind) + _data("edge", "form", form)
        data += (_data("edge", "lag_ns", lag) if lag else "") + _data("edge", "ctrl", ctrl)
        return f'<edge id="e{self._edges}" source="n{src}" target="n{dst}">{data}</edge>\n'

    def footer(self) -> str:
        return "</graph>\n</graphml>\n"


def _key(owner: str, name: str, kind: str) -> str:
    return f'<key id="{owner}_{name}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>\n'


def _data(owner: str, name: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else xml_text(value)
    return f'<data key="{owner}_{name}">{text}</data>'


class _Dot:
    """Graphviz DOT; communication is a box, control edges are dashed."""

    def head(self, trace: Trace, columns: list[str]) -> str:
        return "digraph trace {\n"

    def node(self, key: int, node: dict[str, Any]) -> str:
        shape = ", shape=box" if node["type"].startswith("COMM_") else ""
        label = f"{node['id']} {node['name']}\n{node['type']} {node['duration_ns'] / 1000:,.3f} µs"
        return f"  n{key} [label={dot_text(label)}{shape}];\n"

    def edge(self, src: int, dst: int, kind: str, form: str, lag: int, ctrl: bool) -> str:
        label = (
            kind + ("" if form == "finish_start" else f" {form}") + (f" +{lag}ns" if lag else "")
        )
        style = ", style=dashed" if ctrl else ""
        return f"  n{src} -> n{dst} [label={dot_text(label)}{style}];\n"

    def footer(self) -> str:
        return "}\n"


def dot_text(value: str) -> str:
    """A quoted DOT string in which everything but line ends stands for itself."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\0", "\ufffd")
    return '"' + text.replace("\n", "\\n") + '"'
