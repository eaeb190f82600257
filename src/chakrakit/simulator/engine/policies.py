"""Policies: small classes asked at decision points. Without one, the fast path is untouched.

A policy may have any of these methods:

    choose(collective, members, size, candidates) -> str     which algorithm; once for each distinct call
    pick(ready, now_ps) -> int | None                        which ready row a free pool lane runs next
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

    Called whenever a lane without a recorded order is free and rows are ready, in order of (time, rank,
    lane). The list is in the default order: priority, longest ready, lowest row. None lets the lane wait
    until another of its rows is ready; if there is none to come, the simulation ends as a deadlock.
    """

    def pick(self, ready: Sequence[ReadyRow], now_ps: int) -> int | None:
        """The index of the row to run, or None to wait."""
        ...


@runtime_checkable
class CollectivePolicy(Protocol):
    """Chooses algorithms."""

    def choose(self, collective: str, members: int, size: int, candidates: Sequence[str]) -> str:
        """One of the candidates."""
        ...
