"""The feeder's `workload_graph` JSON: what some simulators read instead of `.et`."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from chakrakit.errors import FormatError
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace

_COMM = ("comm_type", "comm_priority", "comm_size", "comm_src", "comm_dst", "comm_tag")
_ATTRIBUTES = ("is_cpu_op", "num_ops", "tensor_size", *_COMM, "pg_name")


def read(stream: io.BufferedReader, name: str) -> Trace:
    """A whole document; ids, deps, runtime (µs) and communication."""
    try:
        found = msgspec.json.decode(stream.read())
    except msgspec.DecodeError as error:
        raise FormatError(f"not JSON: {error}", path=name) from None
    nodes = found.get("workload_graph") if isinstance(found, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(n, dict) for n in nodes):
        raise FormatError('"workload_graph" should be a list of objects', path=name)
    try:
        return _trace(nodes)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise FormatError(f"a node of workload_graph is wrong: {error}", path=name) from None


def _trace(nodes: list[dict[str, Any]]) -> Trace:
    def ids(*keys: str) -> pa.Array:
        lists: list[Any] = [next((n[k] for k in keys if k in n), []) for n in nodes]
        return pa.array(lists, pa.list_(pa.uint64()))

    data: dict[str, Any] = {
        "id": pa.array([n["Id"] for n in nodes], pa.uint64()),
        "name": pa.array([n.get("Name", "") for n in nodes], pa.string()),
        "type": pa.array([n.get("NodeType", 0) for n in nodes], pa.int32()),
        "duration_micros": pa.array([n.get("runtime", 0) for n in nodes], pa.uint64()),
        "data_deps": ids("data_deps"),
        "ctrl_deps": ids("ctrl_deps", "ctrlDeps"),
    }
    for key in _ATTRIBUTES:
        if any(key in n for n in nodes):
            data[key] = pa.array([n.get(key) for n in nodes])
    return Trace.from_columns(data)


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
        known = {"id", "name", "type", "duration_micros", "data_deps", "ctrl_deps", *_ATTRIBUTES}
        for column in piece.nodes.column_names:
            count = len(piece) - piece.table.column(column).null_count
            if column not in known and (
                column != "start_time_micros" or piece.column(column).any()
            ):
                self.left_out[column] = self.left_out.get(column, 0) + count
        columns = [c for c in piece.nodes.column_names if c in known]
        for node in piece.nodes.select(columns).to_pylist():
            self._stream.write(
                (b"" if self._first else b",\n") + msgspec.json.encode(_object(node))
            )
            self._first = False

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
    if node["type"] in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE):
        # The feeder reads these without asking whether they are there.
        out |= {key: node.get(key) or 0 for key in ("tensor_size", *_COMM)}
    for key in _ATTRIBUTES:
        if node.get(key) is not None:
            out[key] = node[key]
    return out
