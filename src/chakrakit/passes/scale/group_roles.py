"""What groups are for, replicas of a model or parts of one: told by their names or by what they do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from chakrakit.passes.nodes import texts_of
from chakrakit.trace.communication import canonical_group, group_names
from chakrakit.trace.model import CollectiveType, NodeType, Trace, collective_name
from chakrakit.trace.sets import TraceSet

_T = CollectiveType
SUMS = {_T.ALL_REDUCE, _T.REDUCE, _T.REDUCE_SCATTER, _T.REDUCE_SCATTER_BLOCK}
SHARDS = {_T.ALL_GATHER, _T.REDUCE_SCATTER, _T.REDUCE_SCATTER_BLOCK}
"""Collectives with a side that each member has its part of."""
_WHOLE = {_T.ALL_REDUCE, _T.REDUCE, _T.BROADCAST, _T.BARRIER}
"""Collectives whose size for a member does not depend on how many there are."""
_DATA = {"dp", "edp", "replica", "shard", "copy", "copy_edp"}
_MODEL = {"tp", "cp", "ep", "mp", "embedding"}
_FEW_BYTES = 64
"""Losses, norms and flags: sums of so little say nothing of what a group is for."""


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
    """Whether it is known how sizes change with the number of ranks, if these are replicas."""
    return not use.types - SHARDS - _WHOLE


def role_of(names: Collection[str], use: Use, given: bool) -> Role:
    """The role of a group that programs know under these names; `given` if the user says it is data.

    Without a telling name, data parallelism is known by sums that are all of gradients, after the
    forward pass, and by nothing but what it needs: all-reduce and broadcast, or, sharded, gathers of
    parameters and scatters of gradients.
    """
    if not has_rule(use):
        return Role.MODEL if set(names) <= _MODEL else Role.UNCLEAR
    data = Role.SHARDED if use.types & SHARDS else Role.DATA
    if given or set(names) <= _DATA:
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
    found = {}
    for name in dict.fromkeys(names.tolist()):
        mine = names == name
        found[name] = Use(
            frozenset(types[mine].tolist()),
            bool((phases[mine & matters] == "forward").any()),
            bool((phases[mine & matters] != "").all()),
            bool((types[mine & matters] == CollectiveType.ALL_REDUCE).any()),
            bool(small[mine].all()),
        )
    return found


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
        found: dict[str, set[tuple[int, str]]] = {}
        for binding in self._traces.bindings.values():
            for name in self.in_body[binding.body]:
                group = self.group(binding.groups.get(name, name))
                found.setdefault(group, set()).add((binding.body, name))
        return {group: frozenset(users) for group, users in found.items()}

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
        known: dict[frozenset[tuple[int, str]], Role] = {}
        given = {self.use(g) for g in self.users if self._over & {g, *self.names(g)}}
        for group, users in self.users.items():
            if users not in known:
                use = self.use(group)
                known[users] = role_of(self.names(group), use, use in given)
        return {group: known[users] for group, users in self.users.items()}

    def shown(self, group: str) -> str:
        """A group for a message: its name, what programs call it, what is done in it."""
        if group == "":
            return f"all ranks ({self.use(group)})"
        called = self.names(group) - {group}
        role = f" ({', '.join(sorted(called))})" if called else ""
        return f"group {group!r}{role} ({self.use(group)})"
