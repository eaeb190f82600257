"""One trace in memory: schema, columns, edges, graph. It knows no file format."""

from __future__ import annotations

from chakrakit.trace.model import columns, wire
from chakrakit.trace.model.builder import TraceBuilder
from chakrakit.trace.model.columns import IO_COLUMNS, STORAGE_TYPES, column_name, storage_of_member
from chakrakit.trace.model.edges import (
    FORM_SHIFT,
    KIND_BITS,
    MAX_ROWS,
    Dependencies,
    EdgeForm,
    EdgeKind,
    Edges,
    Scalar,
    check_range,
    column,
    edge_codes,
    edge_columns_that_fit,
    edge_columns_that_mean_something,
    resolve,
)
from chakrakit.trace.model.graph import Graph
from chakrakit.trace.model.joint import JointTrace, jointly
from chakrakit.trace.model.layouts import Layout, Layouts
from chakrakit.trace.model.metadata import GENERATED_CODE, Metadata
from chakrakit.trace.model.nesting import SLACK_NS, depth_of, nearest_kept, nested, parents_by_id
from chakrakit.trace.model.node import Node
from chakrakit.trace.model.schema import (
    COMMUNICATION,
    CollectiveType,
    Member,
    NodeType,
    collective_name,
    collective_words,
    node_type_name,
)
from chakrakit.trace.model.trace import PARENT_COLUMNS, Trace
from chakrakit.trace.model.vocabulary import RECOMPUTED, Attribute, by_name
from chakrakit.trace.model.wire import field_bytes, varint

__all__ = [
    "COMMUNICATION",
    "FORM_SHIFT",
    "GENERATED_CODE",
    "IO_COLUMNS",
    "KIND_BITS",
    "MAX_ROWS",
    "PARENT_COLUMNS",
    "RECOMPUTED",
    "SLACK_NS",
    "STORAGE_TYPES",
    "Attribute",
    "CollectiveType",
    "Dependencies",
    "EdgeForm",
    "EdgeKind",
    "Edges",
    "Graph",
    "JointTrace",
    "Layout",
    "Layouts",
    "Member",
    "Metadata",
    "Node",
    "NodeType",
    "Scalar",
    "Trace",
    "TraceBuilder",
    "by_name",
    "check_range",
    "collective_name",
    "collective_words",
    "column",
    "column_name",
    "columns",
    "depth_of",
    "edge_codes",
    "edge_columns_that_fit",
    "edge_columns_that_mean_something",
    "field_bytes",
    "jointly",
    "nearest_kept",
    "nested",
    "node_type_name",
    "parents_by_id",
    "resolve",
    "storage_of_member",
    "varint",
    "wire",
]
