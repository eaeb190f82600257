"""The members and names of groups after the number of replicas along an axis changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.passes.scale.axes import Axis, GroupPosition, interleaved, interleaving
from chakrakit.trace.communication import Groups

Key = tuple[str, int]
"""A group: the first of those that are alike in every replica, and the replica it is in."""
_ALL = -1
"""The replica of a group that is across all of them."""


class ScaledGroups:
    """The groups of a set after scaling (`groups`).

    A group across all replicas has all of the new ones, in the order it had. A group within a replica
    is there once in each. Groups numbered 1, 2, … by role, as `chakra generate` does, are numbered so
    again; others keep their names, and new ones are named after the first of their kind, as in `tp.5`.
    Groups askew to the axis, which no program uses, are left out (`dropped`).
    `lies` says how each group lies on the axis, `roles` what programs call it.
    """

    def __init__(
        self,
        groups: Groups,
        axis: Axis,
        size: int,
        lies: Mapping[str, GroupPosition],
        roles: Mapping[str, str],
    ) -> None:
        self.axis, self.after, self._lies = axis, axis.resized(size), lies
        self.dropped: list[str] = []
        self._keys: dict[str, Key] = {}
        self._sites: dict[str, tuple[int, ...]] = {}
        self._place(groups)
        in_order = self._numbered(groups, roles)
        if in_order is not None:
            self._names = {key: str(i) for i, key in enumerate(in_order, 1)}
        else:
            old_names = {key: name for name, key in self._keys.items()}
            self._names = {
                key: old_names.get(key, f"{key[0]}.{key[1]}") for key in self._in_place()
            }
        self.groups = Groups({name: self._ranks(key, groups) for key, name in self._names.items()})

    def name(self, group: str, replica: int) -> str:
        """What a group is called after scaling, by a rank in this replica."""
        first, within = self._keys[group]
        return self._names[first, _ALL if within == _ALL else replica]

    def _place(self, groups: Groups) -> None:
        """Finds the key of every group."""
        alike: dict[tuple[tuple[int, ...], int], str] = {}
        twins: Counter[tuple[tuple[int, ...], int]] = Counter()
        for name, ranks in groups.items():
            members = np.array(ranks, np.int64)
            lie, sites = self._lies[name], _ints(self.axis.site(members))
            if lie is GroupPosition.ASKEW:
                self.dropped.append(name)
            elif lie is GroupPosition.ACROSS:
                self._keys[name] = (name, _ALL)
            else:
                replica = int(self.axis.replica(ranks[0])) if ranks else 0
                # Two groups may have the same ranks; each has its own kind in the other replicas.
                twin = twins[sites, replica]
                twins[sites, replica] += 1
                first = alike.setdefault((sites, twin), name)
                self._keys[name], self._sites[first] = (first, replica), sites

    def _ranks(self, key: Key, groups: Groups) -> list[int]:
        first, replica = key
        if replica != _ALL:
            return [int(self.after.rank(replica, site)) for site in self._sites[first]]
        members = np.array(groups[first], np.int64)
        sites = list(dict.fromkeys(_ints(self.axis.site(members))))
        length = interleaving(
            _pairs(sites, _ints(self.axis.site(members)), _ints(self.axis.replica(members)))
        )
        if length is None:
            raise TraceError(
                f"group {first!r} lists its ranks in an order that cannot be continued"
            )
        return [
            int(self.after.rank(q, sites[i]))
            for i, q in interleaved(len(sites), self.after.size, length)
        ]

    def _in_place(self) -> Iterable[Key]:
        """New groups in the old order; those of new replicas behind the last old one of their kind."""
        have = set(self._keys.values())
        last = {first: name for name, (first, _) in self._keys.items()}
        for name, (first, replica) in self._keys.items():
            if replica < self.after.size:
                yield first, replica
            if last[first] == name and replica != _ALL:
                yield from ((first, q) for q in range(self.after.size) if (first, q) not in have)

    def _numbered(self, groups: Groups, roles: Mapping[str, str]) -> list[Key] | None:
        """New groups in the order of their numbers; None where the old ones are not numbered by role."""
        in_order = list(groups) == [str(i + 1) for i in range(len(groups))]
        if not roles or not in_order or len(self._keys) != len(groups):
            return None
        keys: list[Key] = []
        for names in _blocks(groups, roles):
            block = self._block([self._keys[name] for name in names])
            if block is None:
                return None
            keys += block
        return keys

    def _block(self, keys: list[Key]) -> list[Key] | None:
        """The groups of one role, with those of all new replicas in between."""
        if all(replica == _ALL for _, replica in keys):
            return keys
        firsts = list(dict.fromkeys(first for first, _ in keys))
        length = interleaving(_pairs(firsts, [k[0] for k in keys], [k[1] for k in keys]))
        if length is None:
            return None
        return [(firsts[i], q) for i, q in interleaved(len(firsts), self.after.size, length)]


def _blocks(groups: Groups, roles: Mapping[str, str]) -> list[list[str]]:
    """Groups of one role, which lie next to each other. Of one role, a rank has one group.

    Groups that no program uses have no role of their own and belong to those they follow.
    """
    blocks: list[list[str]] = []
    block_ranks: set[int] = set()
    role = None
    for name, ranks in groups.items():
        group_role = roles.get(name)
        if (
            not blocks
            or (group_role and role and group_role != role)
            or not block_ranks.isdisjoint(ranks)
        ):
            blocks.append([])
            block_ranks, role = set(), None
        blocks[-1].append(name)
        block_ranks |= set(ranks)
        role = role or group_role
    return blocks


def _ints(values: I64 | int) -> tuple[int, ...]:
    return tuple(np.asarray(values).tolist())


def _pairs(items: list[Any], of: Iterable[Any], replicas: Iterable[int]) -> list[tuple[int, int]]:
    """(number of the item, replica) for each of a list."""
    number = {item: i for i, item in enumerate(items)}
    return [(number[item], q) for item, q in zip(of, replicas, strict=True)]
