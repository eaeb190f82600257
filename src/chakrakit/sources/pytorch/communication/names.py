"""Names of communication: which collective a record, an operator or a kernel stands for."""

from __future__ import annotations

import re

from chakrakit.trace.model import CollectiveType

SEND, RECV, UNKNOWN = -1, -2, -3
"""What is no collective: the two ends of a message, and what nobody here has heard of."""

_C = CollectiveType
# Longer words first: "reduce_scatter" holds "reduce", "allgather" holds "gather".
_WORDS: tuple[tuple[str, int], ...] = (
    ("allreduce", _C.ALL_REDUCE),
    ("reducescatter", _C.REDUCE_SCATTER),
    ("allgather", _C.ALL_GATHER),
    ("alltoall", _C.ALL_TO_ALL),
    ("broadcast", _C.BROADCAST),
    ("barrier", _C.BARRIER),
    ("reduce", _C.REDUCE),
    ("gather", _C.GATHER),
    ("scatter", _C.SCATTER),
    ("recv", RECV),
    ("send", SEND),
)
_NOT_COMMUNICATION = re.compile(
    r"wait|_wrap_tensor|monitored|get_|set_|init|shutdown|_end_coalescing|_start_coalescing"
)

OPERATOR = re.compile(r"^(c10d|c10d_functional|_c10d_functional(_autograd)?)::(\w+)")
DISPATCHED = re.compile(r"^c10d::(\w+)")
MARKER = re.compile(r"^(gloo|nccl|mpi|ucc|xccl|hccl|rccl):(\w+)")
PARAMETERS = "record_param_comms"
KERNEL = re.compile(r"nccl(Dev)?Kernel|rccl|msccl", re.IGNORECASE)


def kind_of(name: str) -> int:
    """The CollectiveType a name speaks of, or SEND, RECV or UNKNOWN."""
    word = re.sub(r"[_\-\s]", "", name.lower())
    if "sendrecv" in word:
        return UNKNOWN  # one kernel for messages and all-to-all alike: the host knows which
    return next((kind for piece, kind in _WORDS if piece in word), UNKNOWN)


def is_communication(operator: str) -> bool:
    """Whether this operator of a communication namespace moves data, and does not merely wait."""
    match = OPERATOR.match(operator)
    return match is not None and not _NOT_COMMUNICATION.search(match[3])
