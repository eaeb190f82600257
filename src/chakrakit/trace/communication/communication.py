"""Communication of a set: who calls whom by which name, resolved once for every room.

A *program* is the calls of a body as some of its ranks make them. Nearly always a body is one program; it is
several where its names for groups or peers are one to some ranks and several to others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.communication.calls import Calls
from chakrakit.trace.communication.groups import Binding, Groups, canonical_group
from chakrakit.trace.communication.likeness import Classes, Company, like_classes


@dataclass(frozen=True, eq=False)
class UsedGroup:
    """A group in which some rank calls a collective, under its one name."""

    name: str
    callers: Company
    """The ranks that call collectives in it, ascending, each with the number of its role."""


class Communication:
    """Every rank's calls, with its groups and peers. Ranks and groups are numbered by their places.

    `ranks`, `programs` and `groups` list them; `program[i]` is the program of the i-th rank
    and `group_of[i]` its groups, one for each of the program's roles. A role is numbered by its name.
    """

    def __init__(
        self,
        bindings: Mapping[int, Binding],
        defined_groups: Groups,
        world_size: int,
        calls_of: Callable[[int], Calls],
    ) -> None:
        self.bindings, self.defined_groups, self.world_size = bindings, defined_groups, world_size
        self.ranks = tuple(bindings)
        self.place = {rank: i for i, rank in enumerate(self.ranks)}
        self.programs: list[Calls] = []
        self.body: list[int] = []
        """The body of each program."""
        self.role_number: dict[str, int] = {}
        self.group_of: list[tuple[int, ...]] = []
        self._peers: list[I64] = []
        self._resolve(calls_of)

    def _resolve(self, calls_of: Callable[[int], Calls]) -> None:
        numbers: dict[str, int] = {}
        programs: dict[Hashable, int] = {}
        program_of = []
        resolved: dict[
            int, tuple[int, tuple[int, ...], I64]
        ] = {}  # ranks share bindings by the thousand
        for binding in self.bindings.values():
            if id(binding) not in resolved:
                resolved[id(binding)] = self._resolved(
                    binding, calls_of(binding.body), programs, numbers
                )
            number, groups, peers = resolved[id(binding)]
            program_of.append(number)
            self.group_of.append(groups)
            self._peers.append(peers)
        self.program: I64 = np.array(program_of, np.int64)
        self.groups = list(map(UsedGroup, numbers, self._callers(len(numbers))))

    def _resolved(
        self, binding: Binding, calls: Calls, programs: dict[Hashable, int], numbers: dict[str, int]
    ) -> tuple[int, tuple[int, ...], I64]:
        """The program, the groups and the peers of the ranks with one binding."""
        names = [self.group_name(binding, calls.names[role]) for role in calls.roles]
        peers = _bound(calls.peers, binding.peers)
        number = self._program(binding.body, calls, names, peers, programs)
        groups = tuple(numbers.setdefault(name, len(numbers)) for name in dict.fromkeys(names))
        merged = len(self.programs[number].peers) < len(peers)
        return number, groups, _distinct(peers) if merged else peers

    def _callers(self, groups: int) -> list[Company]:
        """Who calls collectives in each group, in which role."""
        role_number = self.role_number
        roles = [
            [role_number.setdefault(calls.names[role], len(role_number)) for role in calls.roles]
            for calls in self.programs
        ]
        place = np.repeat(np.arange(len(self.ranks)), list(map(len, self.group_of)))
        group = np.array([g for mine in self.group_of for g in mine], np.int64)
        role = np.array([r for p in self.program.tolist() for r in roles[p]], np.int64)
        order = np.argsort(group, kind="stable")
        heads = np.searchsorted(group[order], np.arange(1, groups))
        parts = (np.split(column[order], heads) for column in (place, role))
        return list(map(Company, *parts)) if groups else []

    def _program(
        self, body: int, calls: Calls, groups: list[str], peers: I64, programs: dict[Hashable, int]
    ) -> int:
        """The number of the program that a rank makes of its body."""
        key: Hashable = body
        ends = peers.tolist()
        if len(set(groups)) < len(groups) or len(set(ends)) < len(ends):
            calls = calls.merged(groups, ends)
            key = (body, calls.role.tobytes(), calls.peer.tobytes())
        if key not in programs:
            programs[key] = len(self.programs)
            self.programs.append(calls)
            self.body.append(body)
        return programs[key]

    @property
    def roles(self) -> int:
        """How many names for groups there are, but at least 1."""
        return max(1, len(self.role_number))

    def group_name(self, binding: Binding, name: str) -> str:
        """The canonical name of the group that a body calls `name`, on a rank with that binding."""
        return canonical_group(binding.groups.get(name, name), self.defined_groups)

    def calls(self, place: int) -> Calls:
        """The calls of a rank, in the names of its body."""
        return self.programs[int(self.program[place])]

    def peers(self, place: int) -> I64:
        """The rank that each of the program's peers stands for, on the rank at this place."""
        return self._peers[place]

    def peer_of_calls(self, place: int) -> I64:
        """The rank at the other end of each of a rank's calls; -1 for collectives and where none is named."""
        calls = self.calls(place)
        if not self.bindings[self.ranks[place]].peers:
            return calls.peer  # the ends that the body names are ranks
        at = np.searchsorted(calls.peers, calls.peer)
        return np.where(calls.peer >= 0, np.r_[self.peers(place), -1][at], -1)

    def ends(self, place: int) -> tuple[I64, I64]:
        """Source and destination of a rank's calls; an own end that the body does not name is the rank."""
        calls, bound = self.calls(place), self.bindings[self.ranks[place]].peers
        sends, receives = calls.is_send, ~calls.is_send & ~calls.collective
        rank = self.ranks[place]
        both_ends = []
        for body_ends, is_own_end in ((calls.src, sends), (calls.dst, receives)):
            distinct_ends, inverse = np.unique(body_ends, return_inverse=True)
            moved = np.asarray(_bound(distinct_ends, bound), np.int64)[inverse]
            both_ends.append(np.where(is_own_end & (body_ends < 0), rank, moved))
        return both_ends[0], both_ends[1]

    def peer_places(self, place: int) -> I64:
        """The places of a rank's peers, -1 for one that was not recorded."""
        places = [self.place.get(p, -1) for p in self._peers[place].tolist()]
        return np.array(places, np.int64)

    def apart(self) -> Classes:
        """Every rank and every group its own class."""
        return Classes.apart(len(self.ranks), len(self.groups))

    def classes(
        self,
        rank_keys: Sequence[Hashable],
        group_keys: Sequence[Hashable],
        companies: Sequence[Company] | None = None,
    ) -> Classes:
        """The coarsest classes of ranks with equal programs, keys, groups and peers.

        `companies` are the members of the groups, by default those that call collectives in it.
        """
        return like_classes(
            list(zip(self.program.tolist(), rank_keys, strict=True)),
            group_keys,
            self.group_of,
            [self.peer_places(i) for i in range(len(self.ranks))],
            companies or [g.callers for g in self.groups],
        )


def _bound(ends: I64, peers: Mapping[int, int]) -> I64:
    if not peers or not len(ends):
        return ends
    return np.array([e if e < 0 else peers.get(e, e) for e in ends.tolist()], np.int64)


def _distinct(values: I64) -> I64:
    """Each value once, in order of first use."""
    return np.array(list(dict.fromkeys(values.tolist())), np.int64)
