"""Host or device, and what follows from it for communication."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.operators import is_device_record
from chakrakit.trace.model import COMMUNICATION, NodeType, Trace


def on_host(trace: Trace) -> Mask:
    """Rows that run on the host; a row that does not say so runs on a device."""
    return trace.on_host


def on_device(trace: Trace) -> Mask:
    """All other rows."""
    return ~on_host(trace)


def kernels(trace: Trace) -> Mask:
    """Computation on a device."""
    return on_device(trace) & trace.is_type(NodeType.COMP_NODE)


def stored(trace: Trace) -> Mask:
    """Rows that read from or write to a store of the machine: memory operations that name one."""
    if "storage" not in trace.table.column_names:
        return np.zeros(len(trace), np.bool_)
    named = trace.column("storage", "") != ""
    return np.asarray(named & trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE))


def is_communication(trace: Trace) -> Mask:
    """Collectives and messages. What the host says of one before a kernel does it (NCCL) is not it."""
    found = trace.is_type(*COMMUNICATION)
    host = on_host(trace)
    if not (found & host).any():
        return found
    unknown = trace.is_type(NodeType.COMM_COLL_NODE) & ~trace.has("comm_type")
    return np.asarray(found & ~(host & (unknown | _named_for_device(trace))))


def _named_for_device(trace: Trace) -> Mask:
    codes, texts = trace.texts("name")
    return np.array([is_device_record(str(t)) for t in texts] or [False])[codes]
