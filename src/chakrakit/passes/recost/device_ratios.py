"""How much longer each node takes on one device than on another, by their rooflines."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64, Texts
from chakrakit.machines.device import Device, roofline_seconds
from chakrakit.machines.operations import operations_of
from chakrakit.operators import element_bytes
from chakrakit.passes.nodes import names_of, same_name, texts_of
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host


def device_ratios(trace: Trace, new: Texts, source: Device, target: Device) -> F64:
    """Time on `target` in the element types `new` over time on `source` in the trace's own, a row.

    All kernels of an operator share its work. A kernel of which nothing is known takes the ratio of
    one of its name; what is left, and the host, keeps its time.
    """
    flops, moved = _work(trace)
    device = ~on_host(trace) & trace.is_type(
        NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE
    )
    known = device & ((flops > 0) | (moved > 0))
    old = texts_of(trace, "dtype")
    ratio = np.ones(len(trace))
    before = roofline_seconds(flops, moved, _or_bf16(old), source)
    after = roofline_seconds(flops, moved * _growth(old, new), _or_bf16(new), target)
    ratio[known] = after[known] / np.maximum(before[known], 1e-15)
    ratio[device] = same_name(names_of(trace)[device], ratio[device], known[device])
    return ratio


def _work(trace: Trace) -> tuple[F64, F64]:
    """FLOPs and bytes of each row; for the kernels of an operator those of the whole operation.

    What a node counts may be less than what the class of its operation says: of attention, for one,
    the linker counts the bytes it touches and not the products inside.
    """
    flops = trace.column("num_ops", 0).astype(np.float64)
    moved = trace.column("tensor_size", 0).astype(np.float64)
    for rows, operation, *_ in operations_of(trace):
        at = list(rows)
        flops[at] = max(flops[at].sum(), operation.flops)
        moved[at] = max(moved[at].sum(), operation.bytes if operation.bytes > 1 else 0.0)
    return flops, moved


def _growth(old: Texts, new: Texts) -> F64:
    """How many times as many bytes the same elements take."""
    pairs = zip(old.tolist(), new.tolist(), strict=True)
    return np.array(
        [
            (element_bytes(b) / element_bytes(a) if a != b and element_bytes(a) else 1.0)
            for a, b in pairs
        ]
    )


def _or_bf16(dtypes: Texts) -> Texts:
    return np.where(dtypes == "", "bf16", dtypes).astype(object)
