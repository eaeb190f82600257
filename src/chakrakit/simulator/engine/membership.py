"""Who communicates with whom: every rank's groups and peers, resolved and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.simulator.engine.program import Program
from chakrakit.trace.sets import TraceSet

MOST_MEMBERS = 1 << 17
"""Of a group: its collectives take some kilobytes for every member."""


@dataclass(frozen=True, eq=False)
class Group:
    """A process group in use. `members` are ranks in the group's order."""

    name: str
    members: I64
    present: I64
    """Indices into the recorded ranks, -1 for a member nobody recorded; in the same order."""
    role: I64
    """The number of the role under which each member's body knows the group, -1 for none."""


@dataclass(frozen=True, eq=False)
class RankMessages:
    """A rank's messages with the other ends filled in: parallel arrays in issue order."""

    row: I64
    is_send: np.ndarray[tuple[int], np.dtype[np.bool_]]
    peer: I64
    tag: I64
    size: I64
    nth: I64


class Membership:
    """The groups and peers of every rank; ranks are numbered by index into `ranks`."""

    def __init__(
        self, traces: TraceSet, programs: Sequence[Program], assume_missing: bool = False
    ) -> None:
        self.traces = traces
        self.programs = programs
        self.ranks = traces.ranks
        self.index = {rank: i for i, rank in enumerate(self.ranks)}
        self.assume_missing = assume_missing
        self.role_names: list[str] = []
        self._role_number: dict[str, int] = {}
        self.roles_of_body = [sorted(set(p.calls.role)) for p in programs]
        if any("" in roles for roles in self.roles_of_body):
            _check_members("", traces.world_size)
        self.groups, self.group_of = self._resolve()
        self._messages: dict[int, RankMessages] = {}

    def body(self, i: int) -> int:
        """The body that the i-th rank runs."""
        return self.traces.bindings[self.ranks[i]].body

    def role_number(self, role: str) -> int:
        """A number for a role's name."""
        if role not in self._role_number:
            self._role_number[role] = len(self.role_names)
            self.role_names.append(role)
        return self._role_number[role]

    # --- groups -------------------------------------------------------------------------------

    def _resolve(self) -> tuple[list[Group], list[tuple[int, ...]]]:
        """All groups in use, and for each rank the group of each of its body's roles."""
        numbers: dict[str, int] = {}
        uses: list[dict[int, int]] = []
        group_of = []
        for i, rank in enumerate(self.ranks):
            bound = self.traces.bindings[rank].groups
            mine = []
            for role in self.roles_of_body[self.body(i)]:
                name = bound.get(role, role)
                number = numbers.setdefault(name, len(numbers))
                if number == len(uses):
                    uses.append({})
                if i in uses[number]:
                    raise TraceError(f"rank {rank} knows group {name!r} under two names")
                uses[number][i] = self.role_number(role)
                mine.append(number)
            group_of.append(tuple(mine))
        return [self._group(name, uses[g]) for name, g in numbers.items()], group_of

    def _group(self, name: str, users: Mapping[int, int]) -> Group:
        world = range(self.traces.world_size)
        members = self.traces.groups.ranks_of(name, world)
        if members is None:
            known = ", ".join(repr(n) for n in list(self.traces.groups)[:6]) or "none"
            rank = self.ranks[next(iter(users))]
            raise TraceError(
                f"rank {rank} uses group {name!r}, which does not exist; there are {known}"
            )
        _check_members(name, len(members))
        if len(set(members)) < len(members):
            twice = next(m for i, m in enumerate(members) if m in members[:i])
            raise TraceError(f"group {name!r} lists rank {twice} twice; list every member once")
        present = np.array([self.index.get(m, -1) for m in members], np.int64)
        strangers = sorted(set(users) - set(present.tolist()))
        if strangers:
            raise TraceError(
                f"rank {self.ranks[strangers[0]]} uses group {name!r} but is not in it"
            )
        self._check_missing(name, members, present, users)
        role = np.array([users.get(int(i), -1) for i in present], np.int64)
        return Group(name, np.array(members, np.int64), present, role)

    def _check_missing(
        self, name: str, members: Sequence[int], present: I64, users: Mapping[int, int]
    ) -> None:
        silent = [
            m for m, i in zip(members, present.tolist(), strict=True) if i >= 0 and i not in users
        ]
        if silent:
            raise TraceError(
                f"rank {silent[0]} is in group {name!r} but never communicates in it; "
                "the other members would wait for it"
            )
        if (present < 0).any() and not self.assume_missing:
            gone = members[int(np.flatnonzero(present < 0)[0])]
            raise TraceError(
                f"rank {gone} of group {name!r} was not recorded; --assume-missing symmetric lets it "
                "stand in by arriving with the others"
            )

    # --- messages -----------------------------------------------------------------------------

    def peers(self, i: int) -> I64:
        """The ranks at the other end of the i-th rank's messages, in issue order."""
        keys = self.programs[self.body(i)].messages.peer
        bound = self.traces.bindings[self.ranks[i]].peers
        if not bound or not len(keys):
            return keys
        known = np.unique(keys)
        moved = np.array([bound.get(int(k), int(k)) for k in known], np.int64)
        return moved[np.searchsorted(known, keys)]

    def messages(self, i: int) -> RankMessages:
        """The i-th rank's messages, numbered among those with the same ends and tag."""
        if i not in self._messages:
            m, peer = self.programs[self.body(i)].messages, self.peers(i)
            nth = _turns(m.is_send, peer, m.tag)
            self._messages[i] = RankMessages(m.row, m.is_send, peer, m.tag, m.size, nth)
        return self._messages[i]


def _check_members(name: str, count: int) -> None:
    if count > MOST_MEMBERS:
        raise TraceError(
            f"group {name or '(all ranks)'!r} has {count:,} members; a collective of "
            f"{MOST_MEMBERS:,} is the largest that is simulated"
        )


def _turns(*columns: NDArray[Any]) -> I64:
    """For each entry how many before it are equal in all columns."""
    order = np.lexsort(columns)
    first = np.ones(len(order), bool)
    for i, column in enumerate(columns):
        differs = np.diff(column[order]) != 0
        first[1:] = differs if i == 0 else first[1:] | differs
    begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - begin
    return turn
