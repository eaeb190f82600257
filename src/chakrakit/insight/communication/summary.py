"""Communication by type, group and size: bandwidth, waiting apart from transfer, who talks to whom."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.communication.matching import Matched, match_calls
from chakrakit.insight.communication.roles import group_roles
from chakrakit.insight.rank import Cell, Table, ms, us
from chakrakit.machines import library
from chakrakit.results import Result
from chakrakit.trace.communication import Groups
from chakrakit.trace.model import CollectiveType, NodeType, collective_name, collective_words
from chakrakit.trace.sets import Run

_MOST_PAIRS = 4096
"""Pairs of ranks that a result lists: all of 64 ranks (64²); those of thousands would fill it."""


class CollectiveKind(Result, msgspec.Struct, kw_only=True):
    """All collectives of one type, group and size. Times are means over instances but for the sums.

    Bandwidths are bytes per second / 1e9: `algorithm` the size over the transfer, `bus` that times
    the share each link must carry in an ideal ring, as nccl-tests count them. The size of an
    all-gather or a gather is what each rank ends up with. Sums count a moment in which a rank is in
    several calls once, for the one that began first.
    """

    type: str
    group: str
    members: int
    size_bytes: int
    count: int
    transfer_ns: float
    fastest_ns: int
    slowest_ns: int
    wait_ns: float
    skew_ns: float
    algorithm_gbps: float
    bus_gbps: float
    total_wait_ns: int
    total_exposed_ns: int
    role: str = ""
    """What the group is for (`tp`), where the plan says it; else its name without its number."""


class MessageKind(Result, msgspec.Struct):
    """All messages of one size between two ranks."""

    src: int
    dst: int
    size_bytes: int
    count: int
    transfer_ns: float
    wait_ns: float
    gbps: float


class SizeBin(Result, msgspec.Struct):
    """Collectives and messages from `low` up to twice that."""

    low_bytes: int
    count: int
    bytes: int


class Pair(Result, msgspec.Struct):
    """What one rank sends another; a collective counts as a ring in the order of its group."""

    src: int
    dst: int
    bytes: int
    messages: int


class CommunicationSummary(Result, msgspec.Struct):
    """All communication of a run."""

    collectives: list[CollectiveKind]
    messages: list[MessageKind]
    sizes: list[SizeBin]
    pairs: list[Pair]
    pairs_left_out: int
    slowest: list[dict[str, int | str]]
    """The single collectives in which ranks waited longest, worst first."""

    def table(self) -> Table:
        """One row per type, role and size: groups of one role stand together, beside their slowest one."""
        roles: dict[tuple[str, str, int, int], list[CollectiveKind]] = {}
        for c in self.collectives:
            role = c.role or role_of(c.group)
            roles.setdefault((c.type, role, c.members, c.size_bytes), []).append(c)
        rows = [_role_cells(role, kinds) for (_, role, *_), kinds in roles.items()]
        rows.sort(key=lambda row: -float(row[-1]))
        return Table.of("communication", _HEAD, [*rows, *map(_message_cells, self.messages)])


_HEAD = (
    "type",
    "group",
    "groups",
    "ranks",
    "bytes",
    "count",
    "transfer µs",
    "slowest µs",
    "wait µs",
    "skew µs",
    "alg GB/s",
    "bus GB/s",
    "exposed ms",
)
_NUMBER = re.compile(r"[\W_]*\d+$")
_UNLIKE = 1.05
"""A group is named as the slowest where it takes this many times as long as the mean of its role."""


def role_of(group: str) -> str:
    """A group's name without its number: `dp` for `dp.12`. A name that is a number stays as it is."""
    return _NUMBER.sub("", group) or group or "(all)"


def _role_cells(role: str, kinds: Sequence[CollectiveKind]) -> tuple[Cell, ...]:
    """One row for the collectives of one type and size in groups of one role."""
    count = sum(c.count for c in kinds)

    def mean(of: Callable[[CollectiveKind], float]) -> float:
        return sum(of(c) * c.count for c in kinds) / max(count, 1)

    worst = max(kinds, key=lambda c: c.transfer_ns)
    unlike = len(kinds) > 1 and worst.transfer_ns > _UNLIKE * mean(lambda c: c.transfer_ns)
    named = kinds[0].role != role_of(kinds[0].group)  # after the plan
    group = kinds[0].group or role if len(kinds) == 1 and not named else role
    return (
        kinds[0].type,
        f"{group} (slowest: {worst.group})" if unlike else group,
        len(kinds),
        kinds[0].members,
        kinds[0].size_bytes,
        count,
        us(mean(lambda c: c.transfer_ns)),
        us(worst.transfer_ns),
        us(mean(lambda c: c.wait_ns)),
        us(mean(lambda c: c.skew_ns)),
        round(mean(lambda c: c.algorithm_gbps), 2),
        round(mean(lambda c: c.bus_gbps), 2),
        ms(sum(c.total_exposed_ns for c in kinds)),
    )


def _message_cells(m: MessageKind) -> tuple[Cell, ...]:
    rate = round(m.gbps, 2)
    ends, transfer = f"{m.src}→{m.dst}", us(m.transfer_ns)
    times = transfer, transfer, us(m.wait_ns), 0.0
    return "MESSAGE", ends, 1, 2, m.size_bytes, m.count, *times, rate, rate, 0.0


def bus_factor(kind: int, members: int) -> float:
    """The share of the size that crosses each link of an ideal ring; 1 for a barrier and unknown kinds."""
    if members < 2 or kind not in set(CollectiveType) or kind == CollectiveType.BARRIER:
        return 1.0
    return library.bus_factor(collective_words(kind), members)


def full_size(kind: I64, size: I64, members: I64) -> I64:
    """The size that bandwidth is computed from: for all-gather and gather, all members' input."""
    shares = np.isin(kind, (CollectiveType.ALL_GATHER, CollectiveType.GATHER))
    return np.where(shares, size * members, size)


def communication_of(
    matched: Matched, groups: Groups, world: int, roles: Mapping[str, str] = MappingProxyType({})
) -> CommunicationSummary:
    """The communication of a run from its matched calls; `roles` are what groups are for (`group_roles`)."""
    pairs, more = _pairs(matched, groups, world)
    collectives = _collectives(matched)
    for c in collectives:
        c.role = roles.get(c.group) or role_of(c.group)
    return CommunicationSummary(
        collectives, _messages(matched), _sizes(matched), pairs, more, _slowest(matched)
    )


class _Instances:
    """Reduces values of calls to one value per collective."""

    def __init__(self, matched: Matched) -> None:
        self.rows = np.flatnonzero(matched.collective)
        number = matched.instance[self.rows]
        order = np.argsort(number, kind="stable")
        self.rows = self.rows[order]
        self.first = np.flatnonzero(np.r_[True, number[order][1:] != number[order][:-1]])
        if not len(self.rows):
            self.first = self.rows
        self.head = self.rows[self.first]

    def reduce(self, how: np.ufunc, values: I64) -> I64:
        """One value per instance."""
        if not len(self.rows):
            return np.zeros(0, np.int64)
        out: I64 = how.reduceat(values[self.rows], self.first)
        return out


def _collectives(matched: Matched) -> list[CollectiveKind]:
    instances = _Instances(matched)
    head = instances.head
    size = full_size(
        matched.kind[head], instances.reduce(np.maximum, matched.size), matched.members[head]
    )
    keys = np.stack([matched.kind[head], matched.group_code[head], size])
    kinds, kind_code = np.unique(keys, axis=1, return_inverse=True)
    # The last rank's transfer: from the last arrival to its end; others may be done a little before.
    transfer = instances.reduce(np.maximum, matched.end) - matched.arrival[head]
    transfer = np.maximum(transfer, 0)
    skew = matched.arrival[head] - matched.first[head]
    wait = instances.reduce(np.add, matched.wait * matched.weight)
    added = instances.reduce(np.add, matched.added_wait * matched.weight)
    exposed = instances.reduce(np.add, matched.exposed * matched.weight)
    calls = instances.reduce(np.add, matched.weight)
    out = []
    for mine, (kind, group, bytes_) in zip(_parts(kind_code), kinds.T.tolist(), strict=True):
        members = int(matched.members[head[mine]].max())
        mean = float(transfer[mine].mean())
        rate = bytes_ / mean if mean > 0 else 0.0
        summary = CollectiveKind(
            type=collective_name(kind) if kind >= 0 else "COLLECTIVE",
            group=matched.group_names[group],
            members=members,
            size_bytes=bytes_,
            count=len(mine),
            transfer_ns=mean,
            fastest_ns=int(transfer[mine].min()),
            slowest_ns=int(transfer[mine].max()),
            wait_ns=float(wait[mine].sum() / calls[mine].sum()),
            skew_ns=float(skew[mine].mean()),
            algorithm_gbps=rate,
            bus_gbps=rate * bus_factor(kind, members),
            total_wait_ns=int(added[mine].sum()),
            total_exposed_ns=int(exposed[mine].sum()),
        )
        for code in matched.groups_like(group):
            like = msgspec.structs.replace(summary, group=matched.group_names[code])
            out.append(((kind, code, bytes_), like))
    out.sort(key=lambda entry: (-entry[1].count * entry[1].transfer_ns, entry[0]))
    return [kind for _, kind in out]


def _parts(codes: I64) -> list[I64]:
    """For each code from 0 on, the entries that have it."""
    order = np.argsort(codes.reshape(-1), kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes.reshape(-1)))[:-1]) if len(order) else []


def _messages(matched: Matched) -> list[MessageKind]:
    """Messages by pair and size, timed at the receiver, or at the sender where that is missing."""
    receives = matched.type == NodeType.COMM_RECV_NODE
    alone = (matched.type == NodeType.COMM_SEND_NODE) & (matched.partner < 0)
    rows = np.flatnonzero(receives | alone)
    if not len(rows):
        return []
    keys = np.stack([matched.rank[rows], matched.src[rows], matched.dst[rows], matched.size[rows]])
    kinds, kind_code = np.unique(keys, axis=1, return_inverse=True)
    out = []
    for part, (rank, src, dst, size) in zip(_parts(kind_code), kinds.T.tolist(), strict=True):
        mine = rows[part]
        mean = float(matched.transfer[mine].mean())
        rest = (len(mine), mean, float(matched.wait[mine].mean()), size / mean if mean > 0 else 0.0)
        for ends in zip(*matched.ends_like(rank, *_arrays(src, dst)), strict=True):
            out.append(MessageKind(int(ends[0]), int(ends[1]), size, *rest))
    out.sort(key=lambda m: (-m.count * (m.transfer_ns + m.wait_ns), m.src, m.dst, m.size_bytes))
    return out


def _arrays(*numbers: int) -> list[I64]:
    return [np.array([n], np.int64) for n in numbers]


def _sizes(matched: Matched) -> list[SizeBin]:
    rows = np.concatenate(
        [_Instances(matched).head, np.flatnonzero(matched.type == NodeType.COMM_SEND_NODE)]
    )
    size = full_size(matched.kind, matched.size, matched.members)[rows]
    copies = matched.copies[rows]
    power = np.zeros(len(size), np.int64)
    power[size > 0] = np.frexp(size[size > 0].astype(np.float64))[1] - 1
    out = []
    for p in np.unique(power).tolist():
        mine = power == p
        total = int((size[mine] * copies[mine]).sum())
        out.append(SizeBin(2**p if p else 0, int(copies[mine].sum()), total))
    return out


def _pairs(matched: Matched, groups: Groups, world: int) -> tuple[list[Pair], int]:
    """The pairs of ranks that exchange most, and how many more there are."""
    parts = _sent(matched)
    head = _Instances(matched).head
    keys, kind_code = np.unique(
        np.stack([matched.group_code[head], matched.kind[head]]), axis=1, return_inverse=True
    )
    for part, (group, kind) in zip(_parts(kind_code), keys.T.tolist(), strict=True):
        mine = head[part]
        total = full_size(matched.kind[mine], matched.size[mine], matched.members[mine]).sum()
        like = [matched.group_names[code] for code in matched.groups_like(group)]
        member_ranks = [groups.ranks_of(name, range(world)) or () for name in like]
        if len(member_ranks[0]) > 1:  # like groups have as many members
            parts.append(_traffic(kind, np.array(member_ranks, np.int64), int(total)))
    table = np.concatenate(parts, axis=1)
    ends, pair_code = np.unique((table[0] + 1) * (1 << 32) + table[1] + 1, return_inverse=True)
    moved = np.bincount(pair_code.reshape(-1), table[2].astype(np.float64))
    count = np.bincount(pair_code.reshape(-1), table[3].astype(np.float64)).astype(np.int64)
    most = np.argsort(-moved, kind="stable")[:_MOST_PAIRS]
    src, dst = ends // (1 << 32) - 1, ends % (1 << 32) - 1
    busiest = [Pair(int(src[i]), int(dst[i]), int(moved[i]), int(count[i])) for i in most]
    return busiest, len(ends) - len(busiest)


def _sent(matched: Matched) -> list[I64]:
    """(src, dst, bytes, messages) of all messages, including received ones whose sender was not recorded."""
    sends = np.flatnonzero(
        (matched.type == NodeType.COMM_SEND_NODE)
        | ((matched.type == NodeType.COMM_RECV_NODE) & (matched.partner < 0))
    )
    parts = [np.zeros((4, 0), np.int64)]
    for rank in np.unique(matched.rank[sends]).tolist():
        mine = sends[matched.rank[sends] == rank]
        ends = np.stack([matched.src[mine], matched.dst[mine]])
        pairs, pair_code = np.unique(ends, axis=1, return_inverse=True)
        moved = np.bincount(pair_code.reshape(-1), matched.size[mine].astype(np.float64))
        count = np.bincount(pair_code.reshape(-1))
        src, dst = matched.ends_like(rank, pairs[0], pairs[1])
        again = len(src) // pairs.shape[1]
        parts.append(
            np.stack([src, dst, np.tile(moved.astype(np.int64), again), np.tile(count, again)])
        )
    return parts


def _traffic(kind: int, ranks: I64, size: int) -> I64:
    """(src, dst, bytes, 1) of `size` bytes in each group: all-to-all between all, else around a ring.

    Each row of `ranks` is a group.
    """
    n = ranks.shape[1]
    if kind == CollectiveType.ALL_TO_ALL:
        src, dst = np.repeat(ranks, n, axis=1).reshape(-1), np.tile(ranks, n).reshape(-1)
        apart = src != dst
        return _moves(src[apart], dst[apart], size // n)
    moved = int(size * bus_factor(kind, n)) if kind != CollectiveType.BARRIER else 0
    return _moves(ranks.reshape(-1), np.roll(ranks, -1, axis=1).reshape(-1), moved)


def _moves(src: I64, dst: I64, size: int) -> I64:
    return np.stack([src, dst, np.full(len(src), size), np.ones(len(src), np.int64)])


def _slowest(matched: Matched, count: int = 10) -> list[dict[str, int | str]]:
    instances = _Instances(matched)
    wait = instances.reduce(np.add, matched.wait * matched.weight)
    out: list[dict[str, int | str]] = []
    for level in np.unique(wait[wait > 0])[::-1].tolist():
        if len(out) >= count:
            break
        equal = instances.head[wait == level]
        copies = [
            (code, int(matched.seq[h]), h)
            for h in equal.tolist()
            for code in matched.groups_like(int(matched.group_code[h]))
        ]
        out += [_waited(matched, h, code, level) for code, _, h in sorted(copies)]
    return out[:count]


def _waited(matched: Matched, h: int, code: int, wait: int) -> dict[str, int | str]:
    """One collective as a dictionary; `h` is its first call, `code` its group."""
    return {
        "type": collective_name(int(matched.kind[h])) if matched.kind[h] >= 0 else "COLLECTIVE",
        "group": matched.group_names[code],
        "seq": int(matched.seq[h]),
        "arrival_ns": int(matched.arrival[h]),
        "skew_ns": int(matched.arrival[h] - matched.first[h]),
        "wait_ns": wait,
        "last_rank": matched.last_rank(h, code),
    }


def communication(run: Run) -> CommunicationSummary:
    """All communication of a run."""
    return communication_of(match_calls(run), run.groups, run.world_size, group_roles(run))
