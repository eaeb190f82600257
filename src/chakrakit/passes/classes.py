"""The class of work a node does: gemm, attention, elementwise, communication, host, …."""

from __future__ import annotations

import re

import numpy as np

from chakrakit.machines.operations import operations_of
from chakrakit.passes.attributes import Texts, texts_of
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace

_COMM = (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
_COPY = re.compile(r"^mem(cpy|set)\b", re.IGNORECASE)
_OP_TYPES = {"matmul": "gemm", "vector": "elementwise"}
"""What generators call the classes that profiles are made in."""
COMPUTE = "compute"
"""All device compute, whatever its class."""
_NOT_COMPUTE = ("host", "communication", "copy", "none")


def classes_of(trace: Trace) -> Texts:
    """A class a node. Device compute that nothing is known of is `other`; metadata is `none`."""
    found: Texts = np.full(len(trace), "none", object)
    host = trace.column("is_cpu_op", False).astype(np.bool_)
    compute = trace.is_type(NodeType.COMP_NODE)
    found[compute] = np.where(host[compute], "host", "other")
    for work in operations_of(trace):
        found[list(work.rows)] = work.operation.kind
    op_type = texts_of(trace, "op_type")
    told = compute & ~host & (op_type != "")
    found[told] = [_OP_TYPES.get(name, name) for name in op_type[told]]
    names = trace.names.to_pylist()
    for row in np.flatnonzero(compute & ~host).tolist():
        if _COPY.match(names[row]):
            found[row] = "copy"
    found[trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)] = "copy"
    found[trace.is_type(*_COMM)] = "communication"
    return found


def is_compute(classes: Texts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows of any class of device compute."""
    return ~np.isin(classes.astype(str), _NOT_COMPUTE)
