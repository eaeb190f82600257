"""ScaleRanks: traces of N ranks as traces of M, with more or fewer replicas of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.base import Pass
from chakrakit.passes.scale.axes import MOST_RANKS, DataAxis, GroupPosition, Role
from chakrakit.passes.scale.resharded import Resharded
from chakrakit.passes.scale.scaled_groups import ScaledGroups
from chakrakit.trace.communication import Binding, Body
from chakrakit.trace.memory import reshard_state
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet

_ENDS = ("comm_src", "comm_dst")


@dataclass(frozen=True)
class ScaleRanks(Pass):
    """Scale N ranks to M: replicas of the model are added or taken away, each with the batch it had.

    The data-parallel axis is found from the roles of groups: their names in generated traces, what is
    done in them in measured ones. `over` names groups (or roles) that are data parallel where that is
    not clear. Groups and peers are rewritten; all-reduces keep their size, and shards (ZeRO, FSDP) and
    the optimizer's work on them change with their number. New replicas repeat the programs of the old
    ones in turn.
    """

    name = "scale-ranks"
    preserves = (
        "the programs of the replicas that stay and their order; what each rank computes, but for the "
        "optimizer on its shard; sizes of all-reduces; there and back again is the same, byte for byte, "
        "if no replica with a program of its own was taken away and more than one was left"
    )
    ranks: int
    over: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.ranks <= MOST_RANKS:
            raise ConfigError(f"ranks={self.ranks}; it should be from 1 to {MOST_RANKS:,}")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces of M ranks."""
        return _Scaling(traces, self.ranks, self.over).traces()

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The replicas, and the groups by what programs call them."""
        return _Scaling(before, self.ranks, self.over).notes()


class _Scaling:
    """One set of traces on its way to another number of replicas."""

    def __init__(self, before: TraceSet, ranks: int, over: tuple[str, ...]) -> None:
        self.before = before
        self.data = DataAxis(before, over)
        self.axis, self.roles = self.data.axis, self.data.roles
        sites = self.axis.sites
        if ranks % sites:
            raise TraceError(
                f"ranks={ranks}: a replica has {sites} ranks; give a multiple of {sites}"
            )
        self.after = self.axis.resized(ranks // sites)
        self.groups = ScaledGroups(
            before.groups, self.axis, self.after.size, self.data.lies, self._called()
        )
        self._sizes = self._group_sizes()
        self._shards_optimizer = self._is_optimizer_sharded()

    def _called(self) -> dict[str, str]:
        """What programs call groups; nothing where they call some by their own names."""
        called = {group: min(self.roles.names(group)) for group in self.roles.users}
        return {} if set(called.values()) & set(self.before.groups) else called

    def traces(self) -> TraceSet:
        """All ranks of the new set; programs that nobody runs any more are left out."""
        placed = list(self._placed())
        numbers = {body: i for i, body in enumerate(sorted({b.body for _, b, _ in placed}))}
        firsts: dict[int, dict[int, int]] = {}
        bindings = {}
        for rank, old, moved in placed:
            first = firsts.setdefault(old.body, moved)  # a body is written for its lowest rank
            peers = {first[p]: q for p, q in moved.items()} if moved != first else {}
            replica = int(self.after.replica(rank))
            bindings[rank] = Binding(
                numbers[old.body], self._group_names(old, replica), peers, old.scale
            )
        bodies: list[Body] = [partial(self._body, body, firsts[body]) for body in numbers]
        card = self.before.card.replace(kind="traces")
        return TraceSet(bodies, bindings, self.groups.groups, card)

    def _placed(self) -> Iterator[tuple[int, Binding, dict[int, int]]]:
        """New ranks, lowest first: whose program each runs, and where its peers are."""
        for rank in range(self.after.world):
            replica, site = int(self.after.replica(rank)), int(self.after.site(rank))
            old = int(self.axis.rank(replica % self.axis.size, site))
            if old in self.before.bindings:
                yield rank, self.before.bindings[old], self._moved(old, replica)

    def _moved(self, old: int, replica: int) -> dict[int, int]:
        """Each rank that a program names → the rank it means in this replica."""
        binding = self.before.bindings[old]
        peers = self.data.peers[binding.body]
        order = [p for p in self._order[binding.body] if p in peers]
        moved = {
            peer: int(self.after.rank(replica, self.axis.site(binding.peers.get(peer, peer))))
            for peer in dict.fromkeys([*order, *peers])
        }
        for root, names in self.data.roots[binding.body].items():
            for name in names:
                self._move_root(root, name, binding, replica, moved)
        return moved

    def _move_root(
        self, root: int, name: str, binding: Binding, replica: int, moved: dict[int, int]
    ) -> None:
        """The root of a group across all replicas stays where it is; of others, each replica has its own."""
        rank = binding.peers.get(root, root)
        group = self.roles.group(binding.groups.get(name, name))
        if self.data.lies[group] is GroupPosition.ACROSS:
            replica = int(self.axis.replica(rank)) % self.after.size
        place = int(self.after.rank(replica, self.axis.site(rank)))
        if moved.setdefault(root, place) != place:
            raise TraceError(
                f"rank {root} is the root of {name or 'all ranks'!r} and also another's peer or "
                "root, which differ in other replicas"
            )

    @cached_property
    def _order(self) -> dict[int, list[int]]:
        """For each body, its peers in the order that its ranks list them in."""
        bindings = self.before.bindings.values()
        return {b.body: list(b.peers) for b in sorted(bindings, key=lambda b: len(b.peers))}

    def _group_names(self, old: Binding, replica: int) -> dict[str, str]:
        """What the body calls groups → the groups of this replica."""
        names = {}
        for name in dict.fromkeys([*old.groups, *self.roles.in_body[old.body]]):
            group = self.roles.group(old.groups.get(name, name))
            if group == "" or group in self.groups.dropped:
                continue
            new = self.groups.name(group, replica)
            if new != name:
                names[name] = new
        return names

    def _body(self, number: int, peers: dict[int, int]) -> Trace:
        shards = self._resharded(number)
        trace = reshard_state(
            shards(self.before.body_at(number)),
            {name: after for name, (_, after) in shards.ranks.items()},
        )
        columns = {}
        for end in _ENDS:
            if peers and end in trace.table.column_names:
                old_peers, codes = np.unique(trace.column(end, -1), return_inverse=True)
                moved = np.array([peers.get(int(p), int(p)) for p in old_peers], np.int64)
                columns[end] = pa.array(moved[codes], mask=~trace.has(end))
        return trace.with_columns(columns)

    def _resharded(self, number: int) -> Resharded:
        sizes = {name: size for (body, name), size in self._sizes.items() if body == number}
        return Resharded(sizes, (self.axis.size, self.after.size), self._shards_optimizer)

    def _group_sizes(self) -> dict[tuple[int, str], tuple[int, int]]:
        """(body, what it calls a group) → ranks before and after."""
        sizes_of_user: dict[tuple[int, str], tuple[int, int]] = {}
        for group, users in self.roles.users.items():
            sizes = self._size(group)
            for user in users:
                if sizes_of_user.setdefault(user, sizes) != sizes:
                    raise TraceError(
                        f"{self.roles.described(group)}: ranks that share a program have groups "
                        f"of {sizes_of_user[user][0]} and {sizes[0]} ranks under that name"
                    )
        return sizes_of_user

    def _size(self, group: str) -> tuple[int, int]:
        """Ranks of a group before and after."""
        size = len(self.data.members(group))
        across = self.data.lies[group] is GroupPosition.ACROSS
        return size, size // self.axis.size * self.after.size if across else size

    def _is_optimizer_sharded(self) -> bool:
        """Whether optimizers work on shards that change; part changing, part not, nobody can tell apart."""
        sharded = [g for g, role in self.roles.roles.items() if role is Role.SHARDED]
        across = [self.data.lies[g] is GroupPosition.ACROSS for g in sharded]
        if any(across) and not all(across):
            within = sharded[across.index(False)]
            raise TraceError(
                f"{self.roles.described(within)} shards parameters within a replica and others "
                "shard them across; the optimizer's part of each is not known"
            )
        return any(across)

    def notes(self) -> dict[str, Any]:
        """What was found and done."""
        kinds: dict[tuple[str, ...], dict[str, Any]] = {}
        for group, role in self.roles.roles.items():
            before, after = self._size(group)
            names = ", ".join(sorted(self.roles.names(group) - {""})) or "all ranks"
            note = {
                "group": names,
                "role": role.value,
                "lies": self.data.lies[group].value,
                "ranks_before": before,
                "ranks_after": after,
            }
            kinds.setdefault(tuple(map(str, note.values())), note)
        return {
            "replicas_before": self.axis.size,
            "replicas_after": self.after.size,
            "ranks_each": self.axis.sites,
            "groups": list(kinds.values()),
            "left_out_groups": self.groups.dropped,
        }
