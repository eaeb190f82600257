"""Text that nodes carry about where they belong, read with the launching operator's where they have none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.trace.edges import EdgeKind
from chakrakit.trace.trace import Trace

Texts = NDArray[np.object_]


def texts_of(trace: Trace, column: str) -> Texts:
    """A text column, "" where a node has none; what was launched belongs where its launcher does."""
    if column not in trace.table.column_names:
        return np.full(len(trace), "", object)
    values = trace.table.column(column).cast(pa.string()).fill_null("")
    found: Texts = np.array(values.to_numpy(zero_copy_only=False), object)
    edges = trace.edges.where(trace.edges.kind == EdgeKind.LAUNCH)
    bare = found[edges.dst] == ""
    found[edges.dst[bare]] = found[edges.src[bare]]
    return found
