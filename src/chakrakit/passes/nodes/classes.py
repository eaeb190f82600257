"""The class of work a node does: gemm, attention, elementwise, communication, host, …."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import Mask, Texts
from chakrakit.machines.operations import operations_of
from chakrakit.passes.nodes.attributes import names_of, texts_of, where
from chakrakit.trace.model import COMMUNICATION, NodeType, Trace
from chakrakit.trace.placement import on_host

_COPY = re.compile(r"^mem(cpy|set)\b", re.IGNORECASE)
_OP_TYPES = {"matmul": "gemm", "vector": "elementwise"}
"""What generators call the classes that profiles are made in."""
COMPUTE = "compute"
"""All device compute, whatever its class."""
_NOT_COMPUTE = ("host", "communication", "copy", "none")


def classes_of(trace: Trace) -> Texts:
    """One class per node; metadata is `none`.

    A kernel of which nothing is known has the class of others of its name, or is `other`.
    """
    found: Texts = np.full(len(trace), "none", object)
    host = on_host(trace)
    compute = trace.is_type(NodeType.COMP_NODE)
    found[compute] = np.where(host[compute], "host", "other")
    op_type = texts_of(trace, "op_type")
    told = compute & ~host & (op_type != "")
    if (compute & ~host & ~told).any():
        for work in operations_of(trace):
            found[list(work.rows)] = work.operation.kind
    found[told] = [_OP_TYPES.get(name, name) for name in op_type[told]]
    device = np.flatnonzero(compute & ~host)
    names = names_of(trace)[device]
    found[device[where(names, _COPY.match)]] = "copy"
    found[device] = same_name(names, found[device], found[device] != "other")
    found[trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)] = "copy"
    found[trace.is_type(*COMMUNICATION)] = "communication"
    return found


def same_name(names: Texts, values: NDArray[Any], known: Mask) -> NDArray[Any]:
    """Values, where one is not known that of the first node of the same name of which it is."""
    if known.all():
        return values
    have = dict(zip(names[known][::-1], values[known][::-1], strict=True))
    out = values.copy()
    for i in np.flatnonzero(~known).tolist():
        out[i] = have.get(names[i], values[i])
    return out


def is_compute(classes: Texts) -> Mask:
    """Rows of any class of device compute."""
    return where(classes, lambda name: name not in _NOT_COMPUTE)
