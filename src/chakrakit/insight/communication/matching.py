"""Communication of all ranks matched with the times of the run: who came when, and who waited for whom."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.insight.communication.growing_array import GrowingArray
from chakrakit.insight.rank import RankView
from chakrakit.trace.communication import WORLD, Binding, Groups, nth_of_kind
from chakrakit.trace.model import NodeType


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
        _sequence(trace.has("comm_seq")[rows], taken("comm_seq", 0), group, types),
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


def _sequence(given: Mask, seq: I64, group: list[str], types: I64) -> I64:
    """Recorded numbers; where a group lacks some, the place in the order of issue."""
    if not len(seq):
        return seq
    codes = np.unique(np.array(group), return_inverse=True)[1]
    codes = codes * 2 + (types == NodeType.COMM_COLL_NODE)
    whole = ~np.isin(codes, codes[~given])
    return np.where(whole, seq, nth_of_kind(codes))


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

    @cached_property
    def transfer(self) -> I64:
        """What is left of each call without waiting."""
        return self.end - self.start - self.wait


_JOINED = (
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
        self._columns = {name: GrowingArray(np.int64) for name in ("rank", *_JOINED)}
        self._groups: list[str] = []

    def add(self, calls: RankCalls) -> None:
        """A rank's calls."""
        self._columns["rank"].add(np.full(len(calls.row), calls.rank, np.int64))
        for name in _JOINED:
            self._columns[name].add(getattr(calls, name))
        self._groups += map(sys.intern, calls.group)

    def taken(self) -> tuple[dict[str, I64], list[str]]:
        """Every column, and each call's group."""
        groups, self._groups = self._groups, []
        return {name: column.taken() for name, column in self._columns.items()}, groups


def match_calls(parts: Iterable[RankCalls], groups: Groups, world: int) -> Matched:
    """Puts the ranks together: collectives by (group, number), messages by (ends, tag, order)."""
    calls = AllCalls()
    for part in parts:
        calls.add(part)
    return match_all(calls, groups, world)


def match_all(calls: AllCalls, groups: Groups, world: int) -> Matched:
    """The same of calls that were gathered one rank after another."""
    joined, names = calls.taken()
    rank = joined.pop("rank")
    group = _one_world(names, groups)
    codes = group.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    collective = joined["type"] == NodeType.COMM_COLL_NODE
    instance, arrivals = _instances(codes, joined, collective)
    partner = _partners(joined, collective)
    del joined["tag"]
    members = _members(group, codes, instance, collective, groups, world)
    return Matched(
        rank=rank,
        group=group,
        instance=instance,
        partner=partner,
        members=members,
        **arrivals,
        **joined,
    )


def _one_world(names: list[str], groups: Groups) -> pa.DictionaryArray:
    """Names that mean all ranks become one."""
    told = pa.array(names, pa.string()).dictionary_encode()
    plain = [n if n in groups or n not in WORLD else "" for n in told.dictionary.to_pylist()]
    back = pa.array(plain, pa.string()).dictionary_encode()
    indices = back.indices.take(told.indices) if len(names) else told.indices
    return pa.DictionaryArray.from_arrays(indices, back.dictionary)


def _instances(codes: I64, joined: dict[str, I64], collective: Mask) -> tuple[I64, dict[str, I64]]:
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
        order = rows[np.lexsort((rows, joined["start"][rows], number))]
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
) -> I64:
    names = group.dictionary.to_pylist()
    told = np.array([len(groups.ranks_of(n, range(world)) or ()) for n in names] or [0], np.int64)
    here = (
        np.bincount(instance[collective], minlength=1)
        if collective.any()
        else np.zeros(1, np.int64)
    )
    seen = np.where(collective, here[np.maximum(instance, 0)], 2)
    if not len(codes):
        return seen
    return np.where(collective, np.maximum(told[codes], seen), 2)
