"""Names of communication: which collective an operator, a library's record or a kernel stands for.

This is the one table of such names. A library that is not here yet takes one line in `LIBRARIES`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class LibraryNames(NamedTuple):
    """A communication library by the names it leaves in recordings."""

    name: str
    kernels: str = ""
    """A pattern that its kernels' names match, upper or lower case; nothing where the host does the work."""

    @property
    def on_device(self) -> bool:
        """Whether kernels do its work, so that the host's record of it is not the communication itself."""
        return bool(self.kernels)


LIBRARIES = (
    LibraryNames("nccl", r"nccl(Dev)?Kernel"),
    LibraryNames("rccl", r"rccl|msccl"),
    LibraryNames("gloo"),
    LibraryNames("mpi"),
    LibraryNames("ucc"),
    LibraryNames("xccl"),
    LibraryNames("hccl"),
)
"""PyTorch records a call of a library as `nccl:all_reduce`."""

SPACES = (
    "c10d",
    "c10d_functional",
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "symm_mem",
)
"""Namespaces of operators that communicate."""
DISPATCHED = "c10d"
"""The namespace whose operators the others come down to."""
PARAMETERS = "record_param_comms"
"""What PyTorch calls its record of a collective's parameters."""

_WORDS = {
    "allreduce": "ALL_REDUCE",
    "reducescatter": "REDUCE_SCATTER",
    "allgather": "ALL_GATHER",
    "alltoall": "ALL_TO_ALL",
    "broadcast": "BROADCAST",
    "barrier": "BARRIER",
    "reduce": "REDUCE",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "recv": "RECV",
    "send": "SEND",
}
"""Words in names → collectives by Chakra's names, and the two ends of a message. Longer words first:
"reduce_scatter" holds "reduce", "allgather" holds "gather"."""
_BOTH_ENDS = "sendrecv"
"""One kernel for messages and all-to-all alike: the host knows which."""
_WAITS = re.compile(
    r"wait|_wrap_tensor|monitored|get_|set_|init|shutdown|_end_coalescing|_start_coalescing"
)
"""Operators of those namespaces that move no data."""
_OPERATOR = re.compile(r"^(c10d|c10d_functional|_c10d_functional(?:_autograd)?)::(\w+)")
_RECORD = re.compile(rf"^({'|'.join(x.name for x in LIBRARIES)}):(\w+)")
_DEVICE_RECORD = re.compile(rf"^({'|'.join(x.name for x in LIBRARIES if x.on_device)})")
_KERNEL = re.compile("|".join(x.kernels for x in LIBRARIES if x.kernels), re.IGNORECASE)


@lru_cache(1 << 14)
def collective_of(name: str) -> str:
    """The collective that a name stands for: ALL_REDUCE, …, SEND or RECV; "" where it cannot be told."""
    word = re.sub(r"[_\-\s]", "", name.lower())
    if _BOTH_ENDS in word:
        return ""
    return next((kind for piece, kind in _WORDS.items() if piece in word), "")


@lru_cache(1 << 14)
def is_communication(name: str) -> bool:
    """Whether this operator of a communication namespace moves data, and does not merely wait."""
    match = _OPERATOR.match(name)
    return match is not None and not _WAITS.search(match[2])


def is_dispatched(name: str) -> bool:
    """Whether an operator is one that functional collectives come down to, and moves data."""
    return name.startswith(f"{DISPATCHED}::") and is_communication(name)


def is_record(name: str) -> bool:
    """Whether a host row is a library's own record of a call (`nccl:all_reduce`)."""
    return _RECORD.match(name) is not None


def is_device_record(name: str) -> bool:
    """Whether a row's name begins with a library whose kernels do the work."""
    return _DEVICE_RECORD.match(name) is not None


def is_kernel(name: str) -> bool:
    """Whether a device row's name is that of a library's kernel."""
    return _KERNEL.search(name) is not None
