"""A workload of one collective, for those who ask how long it takes with nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import Card, TraceSet


def one_collective(kind: int, size: int, members: Sequence[int]) -> TraceSet:
    """One call of a collective by all members, of `size` bytes as traces count them."""
    trace = Trace.from_columns(
        {
            "name": ["collective"],
            "type": [NodeType.COMM_COLL_NODE],
            "comm_type": [kind],
            "comm_size": [size],
            "pg_name": ["group"],
        }
    )
    bindings = {rank: Binding(0, {"group": "1"}) for rank in members}
    return TraceSet([trace], bindings, Groups({"1": list(members)}), Card())
