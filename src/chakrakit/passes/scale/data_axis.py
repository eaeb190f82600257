"""The axis along which a set of traces holds replicas of one model, found from its groups and messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.passes.scale.axis import Axis, GroupPosition, axes
from chakrakit.passes.scale.group_roles import GroupRoles, Role, has_rule
from chakrakit.trace.communication import group_names
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.sets import TraceSet

_REPLICAS = {Role.DATA, Role.SHARDED}
_MAY_CROSS = {*_REPLICAS, Role.SMALL}
MOST_RANKS = 2**24
"""Every rank has an entry of its own, so that a wrong number must not fill the memory."""


def peers_in(trace: Trace) -> list[int]:
    """The ranks that a body's messages name, its own among them, in order of appearance."""
    rows = trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
    ends = [trace.column(end, -1)[rows].astype(np.int64) for end in ("comm_src", "comm_dst")]
    named = np.stack(ends, axis=1).ravel()
    return [rank for rank in dict.fromkeys(named.tolist()) if rank >= 0]


def roots_in(trace: Trace) -> dict[int, set[str]]:
    """The ranks that a body's collectives name as their roots, and the groups they are the roots of."""
    rows = np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE) & trace.has("comm_src"))
    found: dict[int, set[str]] = {}
    roots = trace.column("comm_src", -1)[rows].tolist()
    for root, group in zip(roots, group_names(trace, rows).to_pylist(), strict=True):
        found.setdefault(root, set()).add(group)
    return found


@dataclass(frozen=True, eq=False)
class _Site:
    """What an axis must not cut: groups, one of each kind, and messages, of one rank per body."""

    roles: GroupRoles
    groups: Mapping[str, I64]
    messages: list[tuple[int, int]]

    def lies(self, axis: Axis) -> dict[str, GroupPosition]:
        return {group: axis.lie(ranks) for group, ranks in self.groups.items()}

    def blockers(self, axis: Axis, lies: Mapping[str, GroupPosition]) -> list[str]:
        """What stands against an axis, in words."""
        found = []
        for group in self.groups:
            role, lie = self.roles.roles[group], lies[group]
            if lie is GroupPosition.ASKEW or (
                lie is GroupPosition.ACROSS and role not in _MAY_CROSS
            ):
                found.append(
                    f"{self.roles.shown(group)} spans {lie.value}, and its role is {role.value}"
                )
        for own, peer in self.messages:
            if axis.replica(own) != axis.replica(peer):
                found.append(f"rank {own} exchanges messages with rank {peer} of another replica")
        return found


class DataAxis:
    """Finds the axis; `axis` is it, or a TraceError says which group or message stands against it.

    Of several axes the one that leaves shards as they are is taken (replicas of a sharded model are
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
        self.axis = self._found(set(over))
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
        known = set(self.roles.users) | {n for g in self.roles.users for n in self.roles.names(g)}
        for name in over:
            if name not in known:
                raise TraceError(
                    f"over: no program uses a group {name!r}; there are "
                    f"{', '.join(repr(k) for k in sorted(known)[:16])}"
                )

    def _found(self, over: set[str]) -> Axis:
        site = self._site()
        wanted = {g for g in site.groups if over & {g, *self.roles.names(g)}}
        fitting: list[tuple[Axis, frozenset[str]]] = []
        blocked: list[list[str]] = []
        for axis in axes(self.traces.world_size):
            lies = site.lies(axis)
            across = {g for g, lie in lies.items() if lie is GroupPosition.ACROSS}
            replicas = frozenset(g for g in across if self.roles.roles[g] in _REPLICAS)
            if replicas and wanted <= across:
                blockers = site.blockers(axis, lies)
                blocked += [blockers] if blockers else []
                fitting += [] if blockers else [(axis, replicas)]
        if fitting:
            return self._best(fitting)
        if self._is_one_replica():
            return Axis(self.traces.world_size, self.traces.world_size, 1)
        raise TraceError(self._why(blocked))

    def _best(self, fitting: list[tuple[Axis, frozenset[str]]]) -> Axis:
        """Shards stay if they can, then most replicas; two different answers are none."""
        self._refuse_lone()

        def score(one: tuple[Axis, frozenset[str]]) -> tuple[bool, int]:
            return any(self.roles.roles[g] is Role.SHARDED for g in one[1]), -one[0].size

        least = min(map(score, fitting))
        found = [one for one in fitting if score(one) == least]
        if len({groups for _, groups in found}) > 1:
            names = " or ".join(self.roles.shown(min(groups)) for _, groups in found[:2])
            raise TraceError(f"the replicas may be those of {names}; say which with over=[NAME]")
        return max((axis for axis, _ in found), key=lambda a: a.stride)

    def _refuse_lone(self) -> None:
        """Groups of one rank are what is left of an axis along which there is one replica."""
        for group, role in self.roles.roles.items():
            if role in _REPLICAS and len(self.members(group)) == 1:
                raise TraceError(
                    f"{self.roles.shown(group)} has one rank: there is one replica, and nothing "
                    "tells which ranks more of them would have"
                )

    def _is_one_replica(self) -> bool:
        """Whether groups of one rank each are all there is of data parallelism."""
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
            return (
                f"the role of {self.roles.shown(unclear[0])} is unclear; {self._cure(unclear[0])}"
            )
        return "no group is data parallel, so that there are no replicas to add or take away"

    def _cure(self, group: str) -> str:
        if not has_rule(self.roles.use(group)):
            return "of such collectives nobody knows what replicas would send"
        return f"if it is data parallel, say so with over=[{group or 'NAME'}]"

    def _check_all(self) -> None:
        """What the samples promised, for every group and message."""
        if self.axis.size == 1:
            return
        groups = {g: self.members(g) for g in self.roles.users}
        site = _Site(self.roles, groups, self.messages(self.traces.ranks))
        found = site.blockers(self.axis, self.lies)
        if found:
            raise TraceError(f"cannot scale: {found[0]}")
