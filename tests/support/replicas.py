"""Four ranks that hold two replicas of two parts each, and the groups between them."""

from __future__ import annotations

from chakrakit import CollectiveType, Groups, TraceBuilder, TraceSet

AR, AG, A2A = CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.ALL_TO_ALL


def set_of(groups, *collectives, peers=None, ranks=4):
    """Every rank does the same collectives: (type, group by rank, bytes, phase)."""
    bodies = []
    for rank in range(ranks):
        t = TraceBuilder()
        for kind, of, size, phase in collectives:
            name = next(n for n in of if rank in groups[n])
            t.collective("c", kind, size, pg_name=name, phase=phase or None)
        if peers:
            t.send("s", rank, peers[rank], 8)
        bodies.append(t.build())
    return TraceSet(bodies, groups=Groups(groups))


DP = {"a": [0, 2], "b": [1, 3]}


TP = {"c": [0, 1], "d": [2, 3]}
