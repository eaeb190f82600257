"""Communication of all ranks matched with the times of the run: who came when, and who waited for whom."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.insight.communication.alike import Alike
from chakrakit.insight.communication.growing_array import GrowingArray
from chakrakit.insight.rank import RankView
from chakrakit.trace.communication import (
    Binding,
    Groups,
    canonical_group,
    nth_of_kind,
    numbered_calls,
)
from chakrakit.trace.model import NodeType, Trace


@dataclass(frozen=True, eq=False)
class RankCalls:
    """A rank's communication rows in the order it issued them, as the run timed them."""

    rank: int
    row: I64
    type: I64
    kind: I64
    size: I64
    out_size: I64
    group: list[str]
    seq: I64
    src: I64
    dst: I64
    tag: I64
    start: I64
    end: I64
    exposed: I64
    """How much of each call nothing else on the rank's device covers."""


def calls_of(view: RankView) -> RankCalls:
    """The part of one rank; of a program that many ranks run (rank -1) as it stands."""
    trace = view.trace
    rows = np.flatnonzero(view.is_comm & view.ran)
    rows = rows[np.lexsort((trace.ids[rows], view.start[rows]))]

    def taken(name: str, default: int) -> I64:
        return trace.column(name, default)[rows].astype(np.int64)

    codes, names = view.texts("pg_name")
    group = [names[c] if c >= 0 else "" for c in codes[rows].tolist()]
    types = trace.types[rows].astype(np.int64)
    sends = types == NodeType.COMM_SEND_NODE
    src, dst = taken("comm_src", -1), taken("comm_dst", -1)
    return RankCalls(
        view.rank,
        rows,
        types,
        taken("comm_type", -1),
        taken("comm_size", 0),
        taken("out_size", -1),
        group,
        _sequence(trace, rows, group, types),
        np.where(sends & (src < 0), view.rank, src),
        np.where(~sends & (dst < 0), view.rank, dst),
        taken("comm_tag", 0),
        view.start[rows],
        view.end[rows],
        _exposed(view, rows),
    )


def rebound(calls: RankCalls, rank: int, binding: Binding) -> RankCalls:
    """A program's calls as another rank makes them: with its groups and peers, at the same times."""
    peers, names = binding.peers, binding.groups

    def moved(ends: I64, own: Mask) -> I64:
        known, which = np.unique(ends, return_inverse=True)
        told = np.array([peers.get(e, e) for e in known.tolist()] or [0], np.int64)[which]
        return np.where((ends < 0) & own, rank, told)

    sends = calls.type == NodeType.COMM_SEND_NODE
    return replace(
        calls,
        rank=rank,
        group=[names.get(g, g) for g in calls.group],
        src=moved(calls.src, sends),
        dst=moved(calls.dst, ~sends),
    )


def _exposed(view: RankView, rows: I64) -> I64:
    from chakrakit.insight.rank import Kind

    return view.duration[rows] - view.busy(Kind.COMPUTE).share_of(view.start[rows], view.end[rows])


def _sequence(trace: Trace, rows: I64, group: list[str], types: I64) -> I64:
    """Recorded numbers; where a group lacks some, the place in the order of issue."""
    if not len(rows):
        return rows
    codes = np.unique(np.array(group), return_inverse=True)[1]
    return numbered_calls(trace, rows, codes * 2 + (types == NodeType.COMM_COLL_NODE))[0]


class Meeting(NamedTuple):
    """The calls that belong to one call: the other end's of a message, all members' of a collective."""

    call: int
    """The entry of the call itself, or of the one that stands for it."""
    group: int
    ranks: I64
    calls: I64
    """The entry of each rank's call, or of the one that stands for it."""


@dataclass(frozen=True, eq=False)
class Matched:
    """All calls, one array a fact, and what belongs together.

    Collectives: `instance` is the number of the collective a call belongs to (-1 for messages);
    `arrival` when its last rank came, `last` the call of that rank. Messages: `partner` is the other
    end's call (-1: not recorded). `wait` is how long a call waited for others: from its own start
    to the last arrival, or to the start of the send.
    """

    rank: I64
    row: I64
    type: I64
    kind: I64
    size: I64
    out_size: I64
    group: pa.DictionaryArray
    seq: I64
    src: I64
    dst: I64
    start: I64
    end: I64
    exposed: I64
    instance: I64
    partner: I64
    first: I64
    arrival: I64
    last: I64
    members: I64
    """How many ranks take part, by the groups; as many as were recorded where those are not known."""
    weight: I64
    """Of how many calls of its collective a call stands for itself and others that are alike."""
    copies: I64
    """How many collectives or messages each call's own stands for, itself included."""
    alike: Alike | None = None
    """Ranks and groups that stand for others; None where every rank's calls are here."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def collective(self) -> Mask:
        """Calls of collectives."""
        return np.asarray(self.type == NodeType.COMM_COLL_NODE)

    @cached_property
    def group_names(self) -> list[str]:
        """The name of each code of `group`."""
        names: list[str] = self.group.dictionary.to_pylist()
        return names

    @cached_property
    def group_code(self) -> I64:
        """A number for each call's group."""
        codes: I64 = self.group.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    @cached_property
    def wait(self) -> I64:
        """How long each call waited for peers, never longer than it lasted."""
        upto = np.where(self.collective, self.arrival, self.start)
        receives = np.flatnonzero((self.type == NodeType.COMM_RECV_NODE) & (self.partner >= 0))
        upto[receives] = self.start[self.partner[receives]]
        # Who ended before the last came did not wait for it: broadcasts, or clocks that differ.
        upto = np.where(upto > self.end, self.start, upto)
        return np.maximum(upto - self.start, 0)

    def looked_at(self, rank: int) -> int:
        """The rank whose calls stand for those of this one."""
        return rank if self.alike is None else self.alike.stands_for(rank)

    def groups_like(self, code: int) -> list[int]:
        """The codes of all groups that a group stands for."""
        return [code] if self.alike is None else self.alike.groups_like(code)

    def ranks_like(self, rank: int) -> list[int]:
        """The ranks that a rank stands for."""
        return [rank] if self.alike is None else self.alike.ranks_like(rank)

    def ends_like(self, rank: int, src: I64, dst: I64) -> tuple[I64, I64]:
        """Ends of a rank's messages, as every rank has them that it stands for."""
        if self.alike is None:
            return src, dst
        return self.alike.moved(rank, src).reshape(-1), self.alike.moved(rank, dst).reshape(-1)

    @cached_property
    def _by_instance(self) -> tuple[I64, I64]:
        """Calls of collectives in order of their instance, and where each instance begins."""
        rows = np.flatnonzero(self.collective)
        order = rows[np.argsort(self.instance[rows], kind="stable")]
        counts = np.bincount(self.instance[rows]) if len(rows) else np.zeros(0, np.int64)
        return order, np.r_[0, np.cumsum(counts)]

    def calls_of_instance(self, instance: int) -> I64:
        """The calls of a collective that are here."""
        order, first = self._by_instance
        return order[first[instance] : first[instance + 1]]

    def coming_last(self, instance: int) -> I64:
        """The calls of a collective that came last, all of those that came at one time."""
        calls = self.calls_of_instance(instance)
        found: I64 = calls[self.start[calls] == self.arrival[calls]]
        return found

    def last_rank(self, call: int, code: int) -> int:
        """The rank that came last to a collective, in the group of that code."""
        if self.alike is None:
            return int(self.rank[self.last[call]])
        coming = self.coming_last(int(self.instance[call]))
        return self.alike.last_of(code, self.alike.part[coming])

    def meeting(self, rank: int, row: int) -> Meeting | None:
        """Who meets in a rank's call; None for a row that is no call."""
        found = np.flatnonzero((self.rank == self.looked_at(rank)) & (self.row == row))
        if not len(found):
            return None
        call = int(found[0])
        code = int(self.group_code[call])
        if self.collective[call]:
            calls = self.calls_of_instance(int(self.instance[call]))
            if self.alike is not None:
                part = self.alike.part[calls]
                code, ranks, at = self.alike.meeting(rank, code, int(self.alike.part[call]), part)
                return Meeting(call, code, ranks, calls[at])
        else:
            calls = self.partner[[call]]
            calls = calls[calls >= 0]
            if self.alike is not None and len(calls):
                end = (self.src if self.type[call] == NodeType.COMM_RECV_NODE else self.dst)[[call]]
                place = self.ranks_like(int(self.rank[call])).index(rank)
                return Meeting(
                    call, code, self.alike.moved(int(self.rank[call]), end)[place], calls
                )
        return Meeting(call, code, self.rank[calls], calls)

    @cached_property
    def transfer(self) -> I64:
        """What is left of each call without waiting."""
        return self.end - self.start - self.wait


JOINED = (
    "row",
    "type",
    "kind",
    "size",
    "out_size",
    "seq",
    "src",
    "dst",
    "tag",
    "start",
    "end",
    "exposed",
)


class AllCalls:
    """The calls of all ranks, one rank after another."""

    def __init__(self) -> None:
        self._columns = {name: GrowingArray(np.int64) for name in ("rank", *JOINED)}
        self._groups: list[str] = []

    def add(self, calls: RankCalls) -> None:
        """A rank's calls."""
        self._columns["rank"].add(np.full(len(calls.row), calls.rank, np.int64))
        for name in JOINED:
            self._columns[name].add(getattr(calls, name))
        self._groups += map(sys.intern, calls.group)

    def matched(self, groups: Groups, world: int) -> Matched:
        """All of them put together; nothing is left here."""
        names, self._groups = self._groups, []
        joined = {name: column.taken() for name, column in self._columns.items()}
        one = np.broadcast_to(np.int64(1), len(names))
        return joined_calls(joined, canonical_names(names, groups), groups, world, one, one)


def match_calls(parts: Iterable[RankCalls], groups: Groups, world: int) -> Matched:
    """Puts the ranks together: collectives by (group, number), messages by (ends, tag, order)."""
    calls = AllCalls()
    for part in parts:
        calls.add(part)
    return calls.matched(groups, world)


def joined_calls(
    joined: dict[str, I64],
    group: pa.DictionaryArray,
    groups: Groups,
    world: int,
    weight: I64,
    copies: I64,
    top: I64 | None = None,
    partner: I64 | None = None,
    alike: Alike | None = None,
) -> Matched:
    """Calls with their groups put together.

    `top` decides who of several came last at one time, by default the later entry; `partner` the other ends
    of messages where they are known.
    """
    codes = group.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    collective = joined["type"] == NodeType.COMM_COLL_NODE
    instance, arrivals = _instances(codes, joined, collective, top)
    other = _partners(joined, collective) if partner is None else partner
    del joined["tag"]
    return Matched(
        group=group,
        instance=instance,
        partner=other,
        members=_members(group, codes, instance, collective, groups, world, weight),
        weight=weight,
        copies=copies,
        alike=alike,
        **arrivals,
        **joined,
    )


def canonical_names(names: list[str], groups: Groups) -> pa.DictionaryArray:
    """The group of each call; names that mean all ranks become one."""
    told = pa.array(names, pa.string()).dictionary_encode()
    plain = [canonical_group(n, groups) for n in told.dictionary.to_pylist()]
    back = pa.array(plain, pa.string()).dictionary_encode()
    indices = back.indices.take(told.indices) if len(names) else told.indices
    return pa.DictionaryArray.from_arrays(indices, back.dictionary)


def _instances(
    codes: I64, joined: dict[str, I64], collective: Mask, top: I64 | None
) -> tuple[I64, dict[str, I64]]:
    n = len(codes)
    instance = np.full(n, -1, np.int64)
    first = joined["start"].copy()
    arrival = joined["start"].copy()
    last = np.arange(n)
    rows = np.flatnonzero(collective)
    if len(rows):
        low = int(joined["seq"][rows].min())
        width = int(joined["seq"][rows].max()) - low + 1
        key = codes[rows] * width + joined["seq"][rows] - low
        _, number = np.unique(key, return_inverse=True)
        instance[rows] = number
        later = rows if top is None else top[rows]
        order = rows[np.lexsort((later, joined["start"][rows], number))]
        ends = np.flatnonzero(np.r_[instance[order[1:]] != instance[order[:-1]], True])
        begins = np.r_[0, ends[:-1] + 1]
        arrival[rows] = joined["start"][order[ends]][number]
        first[rows] = joined["start"][order[begins]][number]
        last[rows] = order[ends][number]
    return instance, {"first": first, "arrival": arrival, "last": last}


def _partners(joined: dict[str, I64], collective: Mask) -> I64:
    partner = np.full(len(collective), -1, np.int64)
    rows = np.flatnonzero(~collective)
    if not len(rows):
        return partner
    keys = np.stack([joined[n][rows] for n in ("src", "dst", "tag")])
    _, kind = np.unique(keys, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    sends = joined["type"][rows] == NodeType.COMM_SEND_NODE
    nth = nth_of_kind(kind * 2 + sends)
    order = np.lexsort((sends, nth, kind))
    a, b = order[:-1], order[1:]
    pair = (kind[a] == kind[b]) & (nth[a] == nth[b]) & ~sends[a] & sends[b]
    partner[rows[a[pair]]], partner[rows[b[pair]]] = rows[b[pair]], rows[a[pair]]
    return partner


def _members(
    group: pa.DictionaryArray,
    codes: I64,
    instance: I64,
    collective: Mask,
    groups: Groups,
    world: int,
    weight: I64,
) -> I64:
    names = group.dictionary.to_pylist()
    told = np.array([len(groups.ranks_of(n, range(world)) or ()) for n in names] or [0], np.int64)
    here = calls_per_instance(instance[collective], weight[collective])
    seen = np.where(collective, here[np.maximum(instance, 0)], 2)
    if not len(codes):
        return seen
    return np.where(collective, np.maximum(told[codes], seen), 2)


def calls_per_instance(instance: I64, weight: I64) -> I64:
    """How many ranks' calls each collective has here."""
    if not len(instance):
        return np.zeros(1, np.int64)
    return np.bincount(instance, weight.astype(np.float64)).astype(np.int64)
