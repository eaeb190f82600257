"""Element types of nodes, and nodes in another precision: bytes change, operations do not."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, Mask, Texts
from chakrakit.machines.operations import Launchers
from chakrakit.operators import TYPES, dtype_name, element_bytes
from chakrakit.passes.nodes import classes_of, is_compute, of_classes, texts_of
from chakrakit.trace.model import COMMUNICATION, Trace

FLOATS = tuple(t.name for t in TYPES if t.kind == "float")
"""Element types that can stand for each other; whole numbers stay what they are."""
_TENSOR = re.compile(r"(?:Tensor|GenericList\[Tensor)\(([^()]+)")
_SIZES = ("comm_size", "out_size")


def with_dtypes(trace: Trace) -> Trace:
    """The trace with the element type of every device compute node that can be known."""
    known = texts_of(trace, "dtype")
    rows = np.flatnonzero((known == "") & is_compute(classes_of(trace)))
    launchers = Launchers(trace)
    types = texts_of(trace, "inputs_types")
    for row in rows.tolist():
        operator = launchers.operator(row)
        found = _TENSOR.search(types[row if operator is None else operator])
        known[row] = dtype_name(found[1]) if found else ""
    return trace.with_columns({"dtype": _some(known)}) if (known != "").any() else trace


def without_guesses(changed: Trace, typed: Trace, trace: Trace) -> Trace:
    """What was changed in a trace with known element types, without those that were only guessed."""
    new, known, said = (texts_of(one, "dtype") for one in (changed, typed, trace))
    kept = np.where(new == known, said, new)
    return changed if (kept == new).all() else changed.with_columns({"dtype": _some(kept)})


def in_precision(trace: Trace, dtypes: Mapping[str, str]) -> Trace:
    """The trace with classes of work in other element types (class → type, `communication` among them)."""
    for name, dtype in dtypes.items():
        trace = _converted(trace, of_classes(trace, (name,)), dtype)
    return trace


def _converted(trace: Trace, rows: Mask, dtype: str) -> Trace:
    """Rows that say an element type of which this can take the place, with it."""
    comm = trace.is_type(*COMMUNICATION)
    for side, said_in, sizes in (
        (rows & comm, "comm_dtype", _SIZES),
        (rows & ~comm, "dtype", ("tensor_size",)),
    ):
        said = texts_of(trace, said_in)
        old = np.array([element_bytes(n) if dtype_name(n) in FLOATS else 0.0 for n in said])
        chosen = side & (old > 0)
        if not chosen.any():
            continue
        said[chosen] = dtype
        columns: dict[str, object] = {said_in: _some(said)}
        for size in (s for s in sizes if s in trace.table.column_names):
            values = trace.column(size, 0).astype(np.int64)
            grown = values[chosen] / old[chosen] * element_bytes(dtype)
            values[chosen] = np.ceil(grown).astype(np.int64)
            columns[size] = pa.array(values, mask=~trace.has(size))
        ratio = np.ones(len(trace))
        ratio[chosen] = element_bytes(dtype) / old[chosen]
        trace = trace.with_columns(columns | _held(trace, ratio))
    return trace


def _held(trace: Trace, ratio: F64) -> dict[str, object]:
    """Bytes that nodes take and release: those of a node follow its element type.

    What is released was taken by another node, which the trace does not name; where all that took as many
    bytes changed alike, it was one of them.
    """
    if "mem_alloc" not in trace.table.column_names:
        return {}
    alloc, free = (trace.column(c, 0).astype(np.int64) for c in ("mem_alloc", "mem_free"))
    released = ratio.copy()
    for size in np.unique(free[free > 0]).tolist():
        taken = np.unique(ratio[alloc == size])
        if len(taken) == 1:
            released[free == size] = taken[0]
    changed = {"mem_alloc": (alloc, ratio), "mem_free": (free, released)}
    return {
        name: pa.array(np.ceil(values * by).astype(np.int64), mask=~trace.has(name))
        for name, (values, by) in changed.items()
        if name in trace.table.column_names
    }


def _some(texts: Texts) -> pa.Array | None:
    return (
        None
        if not (texts != "").any()
        else pa.array([text or None for text in texts.tolist()], pa.string())
    )
