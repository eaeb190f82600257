"""How communication changed: calls and bytes by type, over all ranks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from chakrakit.passes.comm.waits import is_comm
from chakrakit.trace.model import NodeType, collective_words, node_type_name
from chakrakit.trace.sets import TraceSet


def report(before: TraceSet, after: TraceSet) -> dict[str, Any]:
    """One row per type of communication."""
    old, new = _counted(before), _counted(after)
    rows = [
        {
            "type": kind,
            "calls before": old[0][kind],
            "calls after": new[0][kind],
            "bytes before": old[1][kind],
            "bytes after": new[1][kind],
        }
        for kind in sorted(old[0].keys() | new[0].keys())
    ]
    return {"communication": rows}


def _counted(traces: TraceSet) -> tuple[Counter[str], Counter[str]]:
    """Calls and bytes by type."""
    calls, moved = Counter[str](), Counter[str]()
    for number, ranks in Counter(b.body for b in traces.bindings.values()).items():
        body = traces.body_at(number)
        rows = np.flatnonzero(is_comm(body))
        kinds = np.where(
            body.types[rows] == NodeType.COMM_COLL_NODE, body.column("comm_type", -1)[rows], -1
        )
        keys = np.stack([body.types[rows], kinds])
        for key in np.unique(keys, axis=1).T.tolist():
            mine = rows[(keys == np.array(key)[:, None]).all(axis=0)]
            name = _name(*key)
            calls[name] += ranks * len(mine)
            moved[name] += ranks * int(body.column("comm_size", 0)[mine].sum())
    return calls, moved


def _name(node_type: int, kind: int) -> str:
    if kind >= 0:
        return collective_words(kind)
    return node_type_name(node_type).removesuffix("_NODE").lower().replace("_", "-")
