"""Sets of ranks that agree or do not, each with the findings that it must give."""

from __future__ import annotations

import chakrakit as ck
from chakrakit import CollectiveType
from support.faulty_traces import AR


def collectives(*calls, **extra):
    """A rank that issues (type, size, group) one after another."""
    builder = ck.TraceBuilder()
    builder.comp("first")
    for kind, size, group, *more in calls:
        builder.collective("c", kind, size, pg_name=group, **(more[0] if more else {}), **extra)
    return builder.build()


def messages(rank, *calls):
    """A rank that does (verb, peer, size, tag) one after another."""
    builder = ck.TraceBuilder()
    builder.comp("first")
    for verb, peer, size, tag in calls:
        ends = (rank, peer) if verb == "send" else (peer, rank)
        getattr(builder, verb)("m", *ends, size, tag)
    return builder.build()


A2A = CollectiveType.ALL_TO_ALL


AG = CollectiveType.ALL_GATHER


BCAST = CollectiveType.BROADCAST


G = {"1": (0, 1)}


SPLITS = {"in_splits": [1, 2]}


SETS = {
    "the same everywhere": ([collectives((AR, 8, "1"), (AG, 4, "1"))] * 2, G, {}),
    "all ranks by three names": ([collectives((AR, 8, "")), collectives((AR, 8, "0"))], {}, {}),
    "broadcasts may differ in size": (
        [collectives((BCAST, 8, "")), collectives((BCAST, 0, ""))],
        {},
        {},
    ),
    "all-to-all with splits may": (
        [collectives((A2A, 8, "", SPLITS)), collectives((A2A, 9, "", SPLITS))],
        {},
        {},
    ),
    "a send and its receive": (
        [messages(0, ("send", 1, 8, 3)), messages(1, ("recv", 0, 8, 3))],
        {},
        {},
    ),
    "ranks-not-recorded": (
        [collectives((AR, 8, "1"))],
        {"1": tuple(range(1024))},
        {"ranks-not-recorded": 1023},
    ),
    "unknown-group": ([collectives((AR, 8, "9"))] * 2, G, {"unknown-group": 2}),
    "not-a-member": ([collectives()] * 2 + [collectives((AR, 8, "1"))], G, {"not-a-member": 1}),
    "collective-missing": (
        [collectives((AR, 8, "1")), collectives()],
        G,
        {"collective-missing": 1},
    ),
    "collective-order": (
        [collectives((AR, 8, "1"), (AG, 4, "1")), collectives((AG, 4, "1"), (AR, 8, "1"))],
        G,
        {"collective-order": 2},
    ),
    "collective-type": (
        [collectives((AR, 8, "1")), collectives((AG, 8, "1"))],
        G,
        {"collective-type": 1},
    ),
    "collective-size": (
        [collectives((AR, 8, "1")), collectives((AR, 9, "1"))],
        G,
        {"collective-size": 1},
    ),
    "alltoall-size": (
        [collectives((A2A, 8, "1")), collectives((A2A, 9, "1"))],
        G,
        {"alltoall-size": 1},
    ),
    "collective-seq": (
        [collectives((AR, 8, "1"), (AR, 8, "1"), comm_seq=4)] * 2,
        G,
        {"collective-seq": 1},
    ),
    "self-send": ([messages(0, ("send", 0, 8, 0), ("recv", 0, 8, 0))], {}, {"self-send": 2}),
    "wrong-end": (
        [messages(1), messages(0, ("send", 2, 8, 0)), messages(2, ("recv", 1, 8, 0))],
        {},
        {"wrong-end": 1},
    ),
    "peer-out-of-range": (
        [messages(0, ("send", 5, 8, 0)), messages(1)],
        G,
        {"peer-out-of-range": 1},
    ),
    "unmatched-send": ([messages(0, ("send", 1, 8, 0)), messages(1)], {}, {"unmatched-send": 1}),
    "unmatched-recv": ([messages(0), messages(1, ("recv", 0, 8, 0))], {}, {"unmatched-recv": 1}),
    "tags differ": (
        [messages(0, ("send", 1, 8, 1)), messages(1, ("recv", 0, 8, 2))],
        {},
        {"unmatched-send": 1, "unmatched-recv": 1},
    ),
    "message-size": (
        [messages(0, ("send", 1, 8, 0)), messages(1, ("recv", 0, 9, 0))],
        {},
        {"message-size": 1},
    ),
    "the other end not recorded": ([messages(0, ("send", 1, 8, 0))], {}, {"ranks-not-recorded": 1}),
}
"""Name → traces by rank, groups, and the counts of findings expected."""
