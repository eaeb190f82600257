"""Matching: which calls belong together, looking at one rank of each class.

A collective is known by its group and number, a message by its ends, its tag and its turn among those. Where
the traces record the number (`comm_seq`), that is it; else it is the place in the order in which the rank
issues the group's collectives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.trace.communication.calls import Calls
from chakrakit.trace.communication.communication import Communication
from chakrakit.trace.communication.likeness import Classes


class _Share(NamedTuple):
    """What one rank's calls in a role stand for."""

    weight: int
    copies: int
    highest: int


@dataclass(frozen=True, eq=False)
class Matching:
    """The calls of the first rank of each class, one class after another, and which of them meet.

    Arrays are by call; calls that nobody answers are in them, too.
    """

    communication: Communication
    classes: Classes
    offset: I64
    """By class: where its calls begin, and at the end how many there are."""
    group: I64
    """The place of a collective's group, or of the first group like it; -1 for messages."""
    instance: I64
    """The number of the collective, ascending by group and then by number; -1 for messages."""
    partner: I64
    """The call at the other end of a message; -1 where there is none."""

    def programs(self) -> list[Calls]:
        """The calls of each class."""
        return [self.communication.calls(i) for i in self.classes.first.tolist()]

    def column(self, name: str) -> NDArray[Any]:
        """One of the arrays of Calls, for all classes."""
        return _joined(getattr(calls, name) for calls in self.programs())

    @cached_property
    def part(self) -> I64:
        """The class and role of each call together."""
        roles = self.communication.role_number
        parts = []
        for c, calls in enumerate(self.programs()):
            number = np.array([roles.get(n, 0) for n in calls.names] or [0], np.int64)
            parts.append(c * self.communication.roles + number[calls.role])
        return _joined(parts)

    @cached_property
    def weight(self) -> I64:
        """How many calls of its collective each call stands for, itself included."""
        return self._shares[:, 0]

    @cached_property
    def copies(self) -> I64:
        """How many collectives or messages the one of each call stands for, itself included."""
        return self._shares[:, 1]

    @cached_property
    def highest(self) -> I64:
        """For each call, the highest place of the ranks in its collective that it stands for."""
        return self._shares[:, 2]

    @cached_property
    def _shares(self) -> I64:
        shares = [self._of_class(c) for c in range(self.classes.count)]
        return np.concatenate([*shares, np.zeros((0, 3), np.int64)])

    def _of_class(self, c: int) -> I64:
        first = int(self.classes.first[c])
        calls, groups = self.communication.calls(first), self.communication.group_of[first]
        table = np.ones((len(calls.names) + 1, 3), np.int64)
        for role, group in zip(calls.roles, groups, strict=True):
            table[role] = self._share(c, calls.names[role], group)
        table[-1] = 1, len(self.classes.ranks_of(c)), first
        return table[np.where(calls.collective, calls.role, -1)]

    def _share(self, c: int, name: str, group: int) -> _Share:
        ranks, roles = self.communication.groups[group].callers
        number = self.communication.role_number[name]
        mine = ranks[(self.classes.rank[ranks] == c) & (roles == number)]
        copies = len(self.classes.groups_of(int(self.classes.group[group])))
        return _Share(len(mine), copies, int(mine.max()))


def match(communication: Communication, classes: Classes | None = None) -> Matching:
    """Which calls belong together; without classes, every rank is looked at."""
    rank_classes = classes or communication.apart()
    first = rank_classes.first.tolist()
    sizes = [len(communication.calls(i)) for i in first]
    offset = np.r_[0, np.cumsum(sizes)].astype(np.int64)
    group = _joined(_groups(communication, rank_classes, i) for i in first)
    number = _joined(communication.calls(i).number for i in first)
    partner = _partners(communication, rank_classes, offset)
    return Matching(communication, rank_classes, offset, group, _instances(group, number), partner)


def _joined(parts: Iterable[NDArray[Any]]) -> I64:
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


def _groups(communication: Communication, classes: Classes, place: int) -> I64:
    """The group of each of a rank's calls, or the first like it."""
    calls = communication.calls(place)
    group = np.full(len(calls.names) + 1, -1, np.int64)
    mine = list(communication.group_of[place])
    group[calls.roles] = classes.first_group[classes.group[mine]]
    return group[np.where(calls.collective, calls.role, -1)]


def _instances(group: I64, number: I64) -> I64:
    instance = np.full(len(group), -1, np.int64)
    calls = np.flatnonzero(group >= 0)
    distinct, turn = np.unique(number[calls], return_inverse=True)
    instance[calls] = np.unique(group[calls] * len(distinct) + turn, return_inverse=True)[1]
    return instance


class _Messages(NamedTuple):
    """Ends of messages of the ranks that are looked at, and of their peers."""

    call: I64
    """The call, or the one that stands for it."""
    is_itself: Mask
    """Whether it is the call itself."""
    is_send: Mask
    key: NDArray[Any]
    """Turn, tag, destination and source: one row each."""


def _messages_of(
    communication: Communication, classes: Classes, offset: I64, place: int
) -> _Messages:
    calls, peer = communication.calls(place), communication.peer_of_calls(place)
    at = np.flatnonzero(peer >= 0)
    c = int(classes.rank[place])
    sends, rank = calls.is_send[at], communication.ranks[place]
    src, dst = np.where(sends, rank, peer[at]), np.where(sends, peer[at], rank)
    looked = np.full(len(at), int(classes.first[c]) == place)
    return _Messages(
        offset[c] + at, looked, sends, np.stack([calls.number[at], calls.tag[at], dst, src])
    )


def _partners(communication: Communication, classes: Classes, offset: I64) -> I64:
    partner = np.full(int(offset[-1]), -1, np.int64)
    first = classes.first.tolist()
    peers = {p for i in first for p in communication.peer_places(i).tolist() if p >= 0}
    messages = [_messages_of(communication, classes, offset, i) for i in sorted({*first, *peers})]
    if not messages:
        return partner
    call, is_itself, is_send, key = (
        np.concatenate(c, axis=-1) for c in zip(*messages, strict=True)
    )
    order = np.lexsort((is_send, *key))
    same = (key[:, order[1:]] == key[:, order[:-1]]).all(axis=0)
    pair = np.flatnonzero(same & is_send[order[1:]] & ~is_send[order[:-1]])
    receives, sends = order[pair], order[pair + 1]
    for near_ends, far_ends in ((receives, sends), (sends, receives)):
        looked = is_itself[near_ends]
        partner[call[near_ends[looked]]] = call[far_ends[looked]]
    return partner
