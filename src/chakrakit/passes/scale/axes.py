"""Finds the axis along which ranks hold replicas of one model, from the roles of their groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import isqrt

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.passes.base import texts_of
from chakrakit.trace.communication import canonical_group, group_names
from chakrakit.trace.model import CollectiveType, NodeType, Trace, collective_name
from chakrakit.trace.sets import TraceSet


class GroupPosition(Enum):
    """How a group lies on an axis."""

    WITHIN = "within one replica"
    ACROSS = "all replicas"
    ASKEW = "some replicas"


@dataclass(frozen=True)
class Axis:
    """`world` ranks as `size` replicas; the ranks of two neighbours are `stride` apart.

    A rank is (replica, site): rank = site % stride + stride × (replica + size × (site // stride)).
    """

    world: int
    stride: int
    size: int

    @property
    def sites(self) -> int:
        """Ranks of one replica."""
        return self.world // self.size

    def resized(self, size: int) -> Axis:
        """The same sites with another number of replicas."""
        return Axis(self.sites * size, self.stride, size)

    def replica(self, rank: I64 | int) -> I64 | int:
        """Which replica a rank is in."""
        return rank // self.stride % self.size

    def site(self, rank: I64 | int) -> I64 | int:
        """Where in its replica a rank is."""
        outer = rank // (self.stride * self.size)
        return rank % self.stride + self.stride * outer

    def rank(self, replica: I64 | int, site: I64 | int) -> I64 | int:
        """The rank at a place."""
        return site % self.stride + self.stride * (replica + self.size * (site // self.stride))

    def lie(self, ranks: I64) -> GroupPosition:
        """Returns whether these ranks are within one replica, across all, or neither."""
        replicas = np.asarray(self.replica(ranks))
        if len(ranks) == 0 or replicas.min() == replicas.max():
            return GroupPosition.WITHIN
        sites = np.unique(np.asarray(self.site(ranks)))
        return GroupPosition.ACROSS if len(sites) * self.size == len(ranks) else GroupPosition.ASKEW


def axes(world: int) -> Iterator[Axis]:
    """Yields every way to cut the ranks into two replicas or more, most replicas first."""
    small = [d for d in range(1, isqrt(world) + 1) if world % d == 0]
    divisors = sorted({*small, *(world // d for d in small)})
    for size in reversed(divisors[1:]):
        yield from (Axis(world, s, size) for s in divisors if world // size % s == 0)


def interleaving(places: Sequence[tuple[int, int]]) -> int | None:
    """Returns L if a list of all (item, replica) is ordered by (item // L, replica, item % L).

    L of 1 has the replicas next to each other, L of all items one replica after another. None where
    no L gives the order.
    """
    items, replicas = (len({p[i] for p in places}) for i in (0, 1))
    if items * replicas != len(places):
        return None
    for length in (d for d in range(items, 0, -1) if items % d == 0):
        if list(places) == interleaved(items, replicas, length):
            return length
    return None


def interleaved(items: int, replicas: int, length: int) -> list[tuple[int, int]]:
    """Returns all (item, replica) ordered by (item // length, replica, item % length)."""
    return [
        (high + low, replica)
        for high in range(0, items, length)
        for replica in range(replicas)
        for low in range(length)
    ]


# --- roles of groups ----------------------------------------------------------------------------


_T = CollectiveType
SUMS = {_T.ALL_REDUCE, _T.REDUCE, _T.REDUCE_SCATTER, _T.REDUCE_SCATTER_BLOCK}
SHARDS = {_T.ALL_GATHER, _T.REDUCE_SCATTER, _T.REDUCE_SCATTER_BLOCK}
"""Collectives whose input or output is spread over the members, a part each."""
_WHOLE = {_T.ALL_REDUCE, _T.REDUCE, _T.BROADCAST, _T.BARRIER}
"""Collectives whose size for a member does not depend on how many there are."""
_DATA = {"dp", "edp", "replica", "shard", "copy", "copy_edp"}
_MODEL = {"tp", "cp", "ep", "mp", "embedding"}
_FEW_BYTES = 64
"""Sums of up to 64 bytes are losses, norms and flags, which do not show what a group is for."""


class Role(Enum):
    """What a group is for."""

    DATA = "data parallel"
    SHARDED = "data parallel, sharded"
    MODEL = "parts of one model"
    SMALL = "only a few bytes"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Use:
    """What is done in a group."""

    types: frozenset[int] = frozenset()
    sums_forward: bool = False
    """Whether more than a few bytes are summed in the forward pass, as parts of one model do."""
    phased: bool = True
    """Whether all that matters says its phase."""
    reduces: bool = False
    """Whether more than a few bytes are summed up for all."""
    small: bool = True

    def __or__(self, other: Use) -> Use:
        return Use(
            self.types | other.types,
            self.sums_forward or other.sums_forward,
            self.phased and other.phased,
            self.reduces or other.reduces,
            self.small and other.small,
        )

    def __str__(self) -> str:
        return ", ".join(collective_name(t) for t in sorted(self.types)) or "nothing"


def has_rule(use: Use) -> bool:
    """Whether it is known how sizes change with the number of replicas."""
    return not use.types - SHARDS - _WHOLE


def role_of(names: Collection[str], use: Use, declared: bool) -> Role:
    """The role of a group that programs know under these names; `given` if the user says it is data.

    Without a telling name, data parallelism is known by sums that are all of gradients, after the
    forward pass, and by nothing but what it needs: all-reduce and broadcast, or, sharded, gathers of
    parameters and scatters of gradients.
    """
    if not has_rule(use):
        return Role.MODEL if set(names) <= _MODEL else Role.UNCLEAR
    data = Role.SHARDED if use.types & SHARDS else Role.DATA
    if declared or set(names) <= _DATA:
        return data
    if set(names) <= _MODEL:
        return Role.MODEL
    if use.small and not use.types & SHARDS:
        return Role.SMALL
    gradients = use.types & SUMS and use.phased and not use.sums_forward
    # Context parallel ranks gather keys and values, scatter their gradients, and reduce the model's.
    mixed = use.types & SHARDS and use.reduces
    return data if gradients and not mixed else Role.UNCLEAR


def uses_in(trace: Trace) -> dict[str, Use]:
    """What a body does in each of the groups it names."""
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE))
    names = np.array(group_names(trace, rows).to_pylist(), object)
    types = trace.column("comm_type", -1)[rows].astype(np.int64)
    small = trace.column("comm_size", 0)[rows] <= _FEW_BYTES
    phases = texts_of(trace, "phase")[rows]
    matters = np.isin(types, list(SUMS)) & ~small
    uses = {}
    for name in dict.fromkeys(names.tolist()):
        mine = names == name
        uses[name] = Use(
            frozenset(types[mine].tolist()),
            bool((phases[mine & matters] == "forward").any()),
            bool((phases[mine & matters] != "").all()),
            bool((types[mine & matters] == CollectiveType.ALL_REDUCE).any()),
            bool(small[mine].all()),
        )
    return uses


class GroupRoles:
    """Every group of a set that a program uses: its ranks, its names in programs, its role.

    `over` are names, of groups or in programs, that the user says are data parallel; groups of which
    programs make the same use are too.
    """

    def __init__(self, traces: TraceSet, over: Collection[str] = ()) -> None:
        self._traces, self._over = traces, set(over)
        self.in_body = {
            b: uses_in(traces.body_at(b)) for b in {x.body for x in traces.bindings.values()}
        }

    @cached_property
    def users(self) -> dict[str, frozenset[tuple[int, str]]]:
        """Group → the (body, name in it) of those who use it."""
        users_of_group: dict[str, set[tuple[int, str]]] = {}
        for binding in self._traces.bindings.values():
            for name in self.in_body[binding.body]:
                group = self.group(binding.groups.get(name, name))
                users_of_group.setdefault(group, set()).add((binding.body, name))
        return {group: frozenset(users) for group, users in users_of_group.items()}

    def group(self, name: str) -> str:
        """The one name of a group; "" for all ranks."""
        return canonical_group(name, self._traces.groups)

    def names(self, group: str) -> set[str]:
        """What programs call it."""
        return {name for _, name in self.users.get(group, ())}

    def use(self, group: str) -> Use:
        """All that is done in it."""
        use = Use()
        for body, name in self.users.get(group, ()):
            use = use | self.in_body[body][name]
        return use

    @cached_property
    def roles(self) -> dict[str, Role]:
        """Of every group in use. Groups with the same users have the same role."""
        role_of_users: dict[frozenset[tuple[int, str]], Role] = {}
        declared_uses = {self.use(g) for g in self.users if self._over & {g, *self.names(g)}}
        for group, users in self.users.items():
            if users not in role_of_users:
                use = self.use(group)
                role_of_users[users] = role_of(self.names(group), use, use in declared_uses)
        return {group: role_of_users[users] for group, users in self.users.items()}

    def described(self, group: str) -> str:
        """A group for a message: its name, what programs call it, what is done in it."""
        if group == "":
            return f"all ranks ({self.use(group)})"
        called = self.names(group) - {group}
        role = f" ({', '.join(sorted(called))})" if called else ""
        return f"group {group!r}{role} ({self.use(group)})"


# --- the data-parallel axis ---------------------------------------------------------------------


_REPLICAS = {Role.DATA, Role.SHARDED}
_MAY_CROSS = {*_REPLICAS, Role.SMALL}
MOST_RANKS = 2**24
"""The most ranks after scaling. Every rank has an entry in memory, so a mistyped number must not fill it."""


def peers_in(trace: Trace) -> list[int]:
    """The ranks that a body's messages name, its own among them, in order of appearance."""
    rows = trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
    ends = [trace.column(end, -1)[rows].astype(np.int64) for end in ("comm_src", "comm_dst")]
    ranks = np.stack(ends, axis=1).ravel()
    return [rank for rank in dict.fromkeys(ranks.tolist()) if rank >= 0]


def roots_in(trace: Trace) -> dict[int, set[str]]:
    """The ranks that a body's collectives name as their roots, and the groups they are the roots of."""
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE) & trace.has("comm_src"))
    groups_of_root: dict[int, set[str]] = {}
    roots = trace.column("comm_src", -1)[rows].tolist()
    for root, group in zip(roots, group_names(trace, rows).to_pylist(), strict=True):
        groups_of_root.setdefault(root, set()).add(group)
    return groups_of_root


@dataclass(frozen=True, eq=False)
class _Site:
    """What an axis must not cut: one group of each kind, and the messages of one rank per body."""

    roles: GroupRoles
    groups: Mapping[str, I64]
    messages: list[tuple[int, int]]

    def lies(self, axis: Axis) -> dict[str, GroupPosition]:
        return {group: axis.lie(ranks) for group, ranks in self.groups.items()}

    def blockers(self, axis: Axis, lies: Mapping[str, GroupPosition]) -> list[str]:
        """Says in words which groups and messages rule out an axis."""
        blockers = []
        for group in self.groups:
            role, lie = self.roles.roles[group], lies[group]
            if lie is GroupPosition.ASKEW or (
                lie is GroupPosition.ACROSS and role not in _MAY_CROSS
            ):
                blockers.append(
                    f"{self.roles.described(group)} spans {lie.value}, and its role is {role.value}"
                )
        for sender, peer in self.messages:
            if axis.replica(sender) != axis.replica(peer):
                blockers.append(
                    f"rank {sender} exchanges messages with rank {peer} of another replica"
                )
        return blockers


class DataAxis:
    """Finds the data-parallel axis (`axis`); a TraceError says which group or message rules it out.

    Of several possible axes it takes one that leaves shards as they are (replicas of a sharded model are
    added, not shards), then the one with most replicas.
    """

    def __init__(self, traces: TraceSet, over: Collection[str] = ()) -> None:
        if traces.world_size > MOST_RANKS:
            raise TraceError(
                f"a group names rank {traces.world_size - 1:,}; at most {MOST_RANKS:,} ranks "
                "can be scaled"
            )
        self.traces = traces
        self.roles = GroupRoles(traces, over)
        self.peers = {b: peers_in(traces.body_at(b)) for b in self.roles.in_body}
        self.roots = {b: roots_in(traces.body_at(b)) for b in self.roles.in_body}
        self._check_given(over)
        self.axis = self._find_axis(set(over))
        self._check_all()

    @cached_property
    def lies(self) -> dict[str, GroupPosition]:
        """How every group lies on the axis. Of one replica, data parallel groups are across it."""
        groups = {**dict.fromkeys(self.traces.groups), **dict.fromkeys(self.roles.users)}
        if self.axis.size > 1:
            return {group: self.axis.lie(self.members(group)) for group in groups}
        across = {g for g, role in self.roles.roles.items() if role in _REPLICAS} | {""}
        return {
            group: GroupPosition.ACROSS if group in across else GroupPosition.WITHIN
            for group in groups
        }

    def members(self, group: str) -> I64:
        """The ranks of a group; "" is all of them."""
        ranks = self.traces.groups.ranks_of(group, range(self.traces.world_size))
        if ranks is None:
            raise TraceError(f"the traces use group {group!r}, and nothing says which ranks it has")
        return np.array(ranks, np.int64)

    def messages(self, ranks: Iterable[int]) -> list[tuple[int, int]]:
        """(rank, peer) of the messages of some ranks."""
        bindings = self.traces.bindings
        return [
            (rank, bindings[rank].peers.get(peer, peer))
            for rank in ranks
            for peer in self.peers[bindings[rank].body]
        ]

    def _check_given(self, over: Collection[str]) -> None:
        group_names = set(self.roles.users) | {
            n for g in self.roles.users for n in self.roles.names(g)
        }
        for name in over:
            if name not in group_names:
                raise TraceError(
                    f"over: no program uses a group {name!r}; there are "
                    f"{', '.join(repr(k) for k in sorted(group_names)[:16])}"
                )

    def _find_axis(self, over: set[str]) -> Axis:
        site = self._site()
        required = {g for g in site.groups if over & {g, *self.roles.names(g)}}
        fitting: list[tuple[Axis, frozenset[str]]] = []
        blocked: list[list[str]] = []
        for axis in axes(self.traces.world_size):
            lies = site.lies(axis)
            across = {g for g, lie in lies.items() if lie is GroupPosition.ACROSS}
            replicas = frozenset(g for g in across if self.roles.roles[g] in _REPLICAS)
            if replicas and required <= across:
                blockers = site.blockers(axis, lies)
                blocked += [blockers] if blockers else []
                fitting += [] if blockers else [(axis, replicas)]
        if fitting:
            return self._best(fitting)
        if self._is_one_replica():
            return Axis(self.traces.world_size, self.traces.world_size, 1)
        raise TraceError(self._why(blocked))

    def _best(self, fitting: list[tuple[Axis, frozenset[str]]]) -> Axis:
        """Prefers axes that keep shards, then most replicas; refuses to choose between different groups."""
        self._refuse_lone()

        def score(candidate: tuple[Axis, frozenset[str]]) -> tuple[bool, int]:
            return any(self.roles.roles[g] is Role.SHARDED for g in candidate[1]), -candidate[
                0
            ].size

        least = min(map(score, fitting))
        best = [candidate for candidate in fitting if score(candidate) == least]
        if len({groups for _, groups in best}) > 1:
            names = " or ".join(self.roles.described(min(groups)) for _, groups in best[:2])
            raise TraceError(f"the replicas may be those of {names}; say which with over=[NAME]")
        return max((axis for axis, _ in best), key=lambda a: a.stride)

    def _refuse_lone(self) -> None:
        """Refuses data-parallel groups of one rank: nothing says which ranks other replicas would have."""
        for group, role in self.roles.roles.items():
            if role in _REPLICAS and len(self.members(group)) == 1:
                raise TraceError(
                    f"{self.roles.described(group)} has one rank: there is one replica, and nothing "
                    "tells which ranks more of them would have"
                )

    def _is_one_replica(self) -> bool:
        """Whether all data-parallel groups have one rank."""
        replicas = [g for g, role in self.roles.roles.items() if role in _REPLICAS]
        return bool(replicas) and all(len(self.members(g)) == 1 for g in replicas)

    def _site(self) -> _Site:
        kinds = {users: group for group, users in reversed(self.roles.users.items())}
        first = {b.body: rank for rank, b in reversed(self.traces.bindings.items())}
        groups = {group: self.members(group) for group in kinds.values()}
        return _Site(self.roles, groups, self.messages(sorted(first.values())))

    def _why(self, blocked: list[list[str]]) -> str:
        if blocked:
            return f"cannot scale: {min(blocked, key=len)[0]}"
        unclear = [g for g, role in self.roles.roles.items() if role is Role.UNCLEAR]
        if unclear:
            return f"the role of {self.roles.described(unclear[0])} is unclear; {self._cure(unclear[0])}"
        return "no group is data parallel, so that there are no replicas to add or take away"

    def _cure(self, group: str) -> str:
        if not has_rule(self.roles.use(group)):
            return "of such collectives nobody knows what replicas would send"
        return f"if it is data parallel, say so with over=[{group or 'NAME'}]"

    def _check_all(self) -> None:
        """Checks every group and message against the axis, which was found from samples."""
        if self.axis.size == 1:
            return
        groups = {g: self.members(g) for g in self.roles.users}
        site = _Site(self.roles, groups, self.messages(self.traces.ranks))
        blockers = site.blockers(self.axis, self.lies)
        if blockers:
            raise TraceError(f"cannot scale: {blockers[0]}")
