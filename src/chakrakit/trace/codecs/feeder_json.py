"""The feeder's `workload_graph` JSON: what some simulators read instead of `.et`."""

from __future__ import annotations

from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from chakrakit.errors import FormatError, TraceError
from chakrakit.trace.model import COMMUNICATION, Trace, column_name

_COMM = ("comm_type", "comm_priority", "comm_size", "comm_src", "comm_dst", "comm_tag")
_ATTRIBUTES = ("is_cpu_op", "num_ops", "tensor_size", *_COMM, "pg_name")
_FIELDS: dict[str, tuple[str, pa.DataType, Any]] = {
    "Id": ("id", pa.uint64(), None),
    "Name": ("name", pa.string(), ""),
    "NodeType": ("type", pa.int32(), 0),
    "runtime": ("duration_micros", pa.uint64(), 0),
    "data_deps": ("data_deps", pa.list_(pa.uint64()), []),
    "ctrl_deps": ("ctrl_deps", pa.list_(pa.uint64()), []),
}


def from_document(document: dict[str, Any], name: str) -> Trace:
    """A trace from the decoded document: ids, deps, runtime (µs); other keys become attributes."""
    nodes = document.get("workload_graph")
    if not isinstance(nodes, list) or not all(isinstance(n, dict) for n in nodes):
        raise FormatError('"workload_graph" should be a list of objects', path=name)
    for number, node in enumerate(nodes):
        if "ctrlDeps" in node:
            node["ctrl_deps"] = node.pop("ctrlDeps")
        if "Id" not in node:
            raise FormatError(f"node number {number:,} of workload_graph has no Id", path=name)
    # The fields, then the attributes as the document first names them.
    columns = {
        field: _column(nodes, key, kind, default, name)
        for key, (field, kind, default) in _FIELDS.items()
    }
    for key in dict.fromkeys(key for node in nodes for key in node if key not in _FIELDS):
        columns[column_name(key)] = _column(nodes, key, None, None, name)
    try:
        return Trace.from_columns(columns)
    except TraceError as error:
        raise FormatError(str(error), path=name) from None


def _column(
    nodes: list[dict[str, Any]], key: str, kind: pa.DataType | None, default: Any, name: str
) -> pa.Array:
    values = [node.get(key, default) for node in nodes]
    booleans = any(isinstance(v, bool) for v in values)
    try:
        if booleans and kind is not None:
            raise TypeError("true and false are not numbers")
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{key!r} of workload_graph: {error}", path=name) from None


class FeederJsonWriter:
    """Writes pieces of a trace as one `workload_graph` document.

    Only what that form has a place for is written; `left_out` counts the rest by name.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._first = True
        self.left_out: dict[str, int] = {}
        stream.write(b'{"workload_graph": [\n')

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""
        written_columns = {
            "id",
            "name",
            "type",
            "duration_micros",
            "data_deps",
            "ctrl_deps",
            *_ATTRIBUTES,
        }
        for column in piece.table.column_names:
            if column not in written_columns and column != "_layout":
                self._leave_out(piece, column)
        columns = [c for c in piece.nodes.column_names if c in written_columns]
        for node in piece.nodes.select(columns).to_pylist():
            self._stream.write(
                (b"" if self._first else b",\n") + msgspec.json.encode(_object(node))
            )
            self._first = False

    def _leave_out(self, piece: Trace, column: str) -> None:
        count = len(piece) - piece.table.column(column).null_count
        if column == "start_time_micros":
            count = int((piece.column(column) != 0).sum())
        if count:
            name = "raw attributes" if column == "_raw" else column.removeprefix("_")
            self.left_out[name] = self.left_out.get(name, 0) + count

    def close(self) -> None:
        """Ends the document."""
        self._stream.write(b"\n]}\n")


def _object(node: dict[str, Any]) -> dict[str, Any]:
    out = {
        "Id": node["id"],
        "Name": node["name"],
        "NodeType": node["type"],
        "ctrlDeps": node["ctrl_deps"],
        "data_deps": node["data_deps"],
        "runtime": node["duration_micros"],
        "is_cpu_op": bool(node.get("is_cpu_op")),
    }
    if node["type"] in COMMUNICATION:
        # The feeder reads these without asking whether they are there.
        out |= {key: node.get(key) or 0 for key in ("tensor_size", *_COMM)}
    for key in _ATTRIBUTES:
        if node.get(key) is not None:
            out[key] = node[key]
    return out
