"""Policies: small classes asked at decision points. Without one, the fast path is untouched.

A policy may have any of these methods:

    choose(collective, members, size, candidates) -> str     which algorithm; once for each distinct call
    pick(ready) -> int                                       which ready row a free pool lane runs next
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class ReadyRow(NamedTuple):
    """A row that could run now."""

    rank: int
    row: int
    node_id: int
    name: str
    duration_ps: int


@runtime_checkable
class DispatchPolicy(Protocol):
    """Chooses what a free compute engine or host runs next.

    Called whenever a lane without a recorded order is free and more than one row is ready, in order of
    (time, rank, lane). The list is in the default order: priority, longest ready, lowest row.
    """

    def pick(self, ready: Sequence[ReadyRow], now_ps: int) -> int:
        """The index of the row to run."""
        ...


@runtime_checkable
class CollectivePolicy(Protocol):
    """Chooses algorithms."""

    def choose(self, collective: str, members: int, size: int, candidates: Sequence[str]) -> str:
        """One of the candidates."""
        ...
