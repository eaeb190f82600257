"""Recorded communication calls of one rank as columns, whichever recorder wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64

STATES = ("scheduled", "started", "completed")
"""States of a call as recorders name them, in the order a call goes through them."""


@dataclass(frozen=True)
class RecordedGroup:
    """A process group as a rank knows it; `ranks` is empty where the recording does not say."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RecordedCalls:
    """One rank's recorded calls in the order they were issued.

    Numbers that the recorder does not give are -1. Texts are numbers into a list: `group` into `groups`,
    `name` into `names`, the four shapes and types into `texts`. Times are ns since 1970.
    """

    rank: int
    host: str
    group: I64
    groups: list[RecordedGroup]
    sequence: I64
    message: NDArray[np.bool_]
    name: I64
    names: list[str]
    created: I64
    started: I64
    completed: I64
    device_ns: I64
    timeout_ns: I64
    state: I64
    in_sizes: I64
    out_sizes: I64
    in_types: I64
    out_types: I64
    texts: list[Any]
    left_out: dict[str, int] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sequence)

    def in_issue_order(self) -> RecordedCalls:
        """The same calls in the order the host issued them, in which most recorders write them anyway."""
        issued = np.where(self.created >= 0, self.created, self.started)
        if len(self) < 2 or bool((issued[1:] >= issued[:-1]).all()):
            return self
        order = np.argsort(issued, kind="stable")
        return replace(self, **{name: getattr(self, name)[order] for name in _COLUMNS})

    def digest(self, roles: Sequence[str]) -> bytes:
        """A key that is equal for ranks that make the same calls on groups of the same roles."""
        out = blake2b(digest_size=16)
        out.update(repr((roles, self.names, self.texts)).encode())
        for name in _PROGRAM:
            out.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        if self.message.any():  # messages name their ends
            out.update(repr(self.groups).encode())
        return out.digest()


_PROGRAM = (
    "group",
    "sequence",
    "message",
    "name",
    "state",
    "in_sizes",
    "out_sizes",
    "in_types",
    "out_types",
)
_COLUMNS = (*_PROGRAM, "created", "started", "completed", "device_ns", "timeout_ns")
