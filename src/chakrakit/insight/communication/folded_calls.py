"""Calls of ranks of which many are alike: matched once for all of them, so that cost follows the classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.insight.communication.alike import Alike
from chakrakit.insight.communication.matching import (
    JOINED,
    Matched,
    RankCalls,
    joined_calls,
    rebound,
)
from chakrakit.trace.communication import (
    Binding,
    Company,
    Groups,
    canonical_group,
    like_classes,
    nth_of_kind,
)
from chakrakit.trace.model import NodeType


@dataclass(frozen=True, eq=False)
class _Program:
    """A program's calls and what a rank may rename in them."""

    calls: RankCalls

    @cached_property
    def names(self) -> list[str]:
        """The groups in order of first use."""
        return list(dict.fromkeys(self.calls.group))

    def merges(self, binding: Binding) -> bool:
        """Whether a rank's binding makes one of several groups or peers: calls would be numbered anew."""
        groups = {binding.groups.get(n, n) for n in self.names}
        peers = {binding.peers.get(p, p) for p in self.peers.tolist()}
        return len(groups) < len(self.names) or len(peers) < len(self.peers)

    @cached_property
    def roles(self) -> list[str]:
        """The groups in which there are collectives, in order of first use."""
        found = zip(self.calls.group, self.calls.type.tolist(), strict=True)
        return list(dict.fromkeys(g for g, t in found if t == NodeType.COMM_COLL_NODE))

    @cached_property
    def peers(self) -> I64:
        """The other ends of messages, ascending."""
        messages = self.calls.type != NodeType.COMM_COLL_NODE
        ends = np.unique(np.r_[self.calls.src[messages], self.calls.dst[messages]])
        return ends[ends >= 0]


class _Rank(NamedTuple):
    rank: int
    program: _Program
    binding: Binding | None
    """None for a rank whose program is its own."""

    def group(self, role: str) -> str:
        """What the rank calls a group of its program."""
        return role if self.binding is None else self.binding.groups.get(role, role)

    def peers(self) -> I64:
        ends = self.program.peers
        if self.binding is None or not self.binding.peers:
            return ends
        return np.array([self.binding.peers.get(e, e) for e in ends.tolist()], np.int64)

    def calls(self) -> RankCalls:
        found = self.program.calls
        return found if self.binding is None else rebound(found, self.rank, self.binding)


class FoldedCalls:
    """The calls of all ranks; a program that several run at the same times is kept once."""

    def __init__(self) -> None:
        self._ranks: list[_Rank] = []
        self._programs: dict[int, _Program] = {}

    def add(self, calls: RankCalls) -> None:
        """A rank with calls of its own."""
        self._ranks.append(_Rank(calls.rank, _Program(calls), None))

    def add_like(self, rank: int, program: RankCalls, binding: Binding) -> bool:
        """A rank that runs a program with its own groups and peers.

        Not taken (False) where some of those are one to this rank: it has to be looked at itself.
        """
        shared = self._programs.setdefault(id(program), _Program(program))
        if shared.merges(binding):
            return False
        self._ranks.append(_Rank(rank, shared, binding))
        return True

    def matched(self, groups: Groups, world: int) -> Matched:
        """All of them put together; nothing is left here."""
        ranks, self._ranks, self._programs = sorted(self._ranks, key=_number), [], {}
        return _Folding(ranks, groups, world).matched()


def _number(rank: _Rank) -> int:
    return rank.rank


class _Folding:
    def __init__(self, ranks: list[_Rank], groups: Groups, world: int) -> None:
        self.ranks, self.groups, self.world = ranks, groups, world
        self.codes = self._group_codes()
        self.names = list(self.codes)
        self.role_codes: dict[str, int] = {}
        self.alike = self._alike()
        self.first = _firsts(self.alike.rank_class).tolist()
        self._calls = {i: ranks[i].calls() for i in self.first}

    def _group_codes(self) -> dict[str, int]:
        """A number for every group in use, in order of first use."""
        codes: dict[str, int] = {}
        for rank in self.ranks:
            for name in rank.program.names:
                codes.setdefault(self._canonical(rank, name), len(codes))
        return codes

    def _canonical(self, rank: _Rank, role: str) -> str:
        return canonical_group(rank.group(role), self.groups)

    def _alike(self) -> Alike:
        users: list[list[tuple[int, int]]] = [[] for _ in self.names]
        groups_of = []
        for i, rank in enumerate(self.ranks):
            mine = [self.codes[self._canonical(rank, role)] for role in rank.program.roles]
            for role, code in zip(rank.program.roles, mine, strict=True):
                users[code].append((i, self.role_codes.setdefault(role, len(self.role_codes))))
            groups_of.append(tuple(mine))
        companies = [
            Company(*(np.array(c, np.int64) for c in (zip(*u, strict=True) if u else ([], []))))
            for u in users
        ]
        place = {rank.rank: i for i, rank in enumerate(self.ranks)}
        peers = [rank.peers() for rank in self.ranks]
        known = [np.array([place.get(p, -1) for p in found.tolist()], np.int64) for found in peers]
        told = [len(self.groups.ranks_of(n, range(self.world)) or ()) for n in self.names]
        rank_class, group_class = like_classes(
            [id(rank.program) for rank in self.ranks], told, groups_of, known, companies
        )
        count = max(1, len(self.role_codes))
        part = [self._part(rank_class, i, count) for i in _firsts(rank_class).tolist()]
        return Alike(
            [r.rank for r in self.ranks],
            rank_class,
            peers,
            group_class,
            companies,
            np.concatenate([*part, np.zeros(0, np.int64)]),
            count,
        )

    def _part(self, rank_class: I64, i: int, roles: int) -> I64:
        """Of each call of a rank its class and role together."""
        names = self.ranks[i].program.calls.group
        role = np.array([self.role_codes.get(g, 0) for g in names], np.int64)
        return int(rank_class[i]) * roles + role

    def matched(self) -> Matched:
        parts = [self._calls[i] for i in self.first]
        joined = {
            name: np.concatenate([*(getattr(p, name) for p in parts), np.zeros(0, np.int64)])
            for name in JOINED
        }
        sizes = [len(p.row) for p in parts]
        joined["rank"] = np.repeat([p.rank for p in parts], sizes).astype(np.int64)
        codes, weight, copies, top = (
            np.concatenate([*c, np.zeros(0, np.int64)]).astype(np.int64)
            for c in zip(*(self._of_calls(i) for i in self.first), strict=True)
        )
        group = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(self.names))
        base = dict(zip(self.first, np.cumsum([0, *sizes]).tolist(), strict=False))
        partner = np.concatenate([self._partners(i, base) for i in self.first])
        return joined_calls(
            joined, group, self.groups, self.world, weight, copies, top, partner, self.alike
        )

    def _of_calls(self, i: int) -> tuple[I64, I64, I64, I64]:
        """Of each call of a rank: group, weight, copies, and the highest rank it stands for in its group."""
        rank, alike = self.ranks[i], self.alike
        facts: dict[str, tuple[int, int, int, int]] = {}
        like = len(alike.ranks_like(rank.rank))
        for role in rank.program.names:
            code = self.codes[self._canonical(rank, role)]
            facts[role] = code, 1, like, i
            if role not in rank.program.roles:
                continue
            head = int(alike.first_group[code])
            ranks, roles = alike.companies[code]
            mine = ranks[
                (alike.rank_class[ranks] == alike.rank_class[i]) & (roles == self.role_codes[role])
            ]
            facts[role] = head, len(mine), len(alike.groups_like(head)), int(mine.max())
        table = np.array([facts[g] for g in rank.program.calls.group], np.int64).reshape(-1, 4)
        messages = rank.program.calls.type != NodeType.COMM_COLL_NODE
        table[messages, 1:] = 1, like, i
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3]

    def _partners(self, i: int, base: dict[int, int]) -> I64:
        """For each call of a rank the other end's call, as an entry of who stands for that rank; or -1."""
        mine = _ends(self._calls[i])
        partner = np.full(len(self._calls[i].row), -1, np.int64)
        theirs: dict[int, dict[_End, int]] = {}
        for (src, dst, tag, send, nth), at in mine.items():
            j = self.alike.place.get(dst if send else src)
            if j is None:
                continue
            if j not in theirs:
                theirs[j] = _ends(self._calls.get(j) or self.ranks[j].calls())
            found = theirs[j].get((src, dst, tag, not send, nth))
            if found is not None:
                partner[at] = base[int(self.alike.first_rank[j])] + found
        return partner


def _firsts(classes: I64) -> I64:
    """The first of each class, ascending."""
    return np.sort(np.unique(classes, return_index=True)[1])


_End = tuple[int, int, int, bool, int]
"""Source, destination, tag, whether it is the send, and its turn among those equal in all of these."""


def _ends(calls: RankCalls) -> dict[_End, int]:
    """The entry of each message."""
    rows = np.flatnonzero(calls.type != NodeType.COMM_COLL_NODE)
    sends = calls.type[rows] == NodeType.COMM_SEND_NODE
    keys = np.stack([calls.src[rows], calls.dst[rows], calls.tag[rows], sends.astype(np.int64)])
    _, kind = np.unique(keys, axis=1, return_inverse=True)
    nth = nth_of_kind(kind.reshape(-1))
    columns = (c.tolist() for c in (*keys[:3], sends, nth))
    return dict(zip(zip(*columns, strict=True), rows.tolist(), strict=True))
