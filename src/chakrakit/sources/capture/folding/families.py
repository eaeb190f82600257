"""Families: process groups that are each other's counterparts, and the place of each rank in them.

`digest` compares the programs of two ranks by family, so that ranks which differ only in the members of their
groups have the same digest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from chakrakit.sources.capture.recording import CapturedRank, CommCall, CreatedGroup
from chakrakit.sources.pytorch import names as words


@dataclass(eq=False)
class Family:
    """Disjoint groups of one size and purpose, such as all tensor-parallel groups.

    `role` is what the program calls them; `place` gives a rank's group and its position there.
    """

    role: str
    size: int
    groups: list[tuple[int, ...]] = field(default_factory=list)
    place: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, ranks: tuple[int, ...]) -> None:
        """Add a group."""
        for position, rank in enumerate(ranks):
            self.place[rank] = (len(self.groups), position)
        self.groups.append(ranks)

    def takes(self, group: CreatedGroup) -> bool:
        """Whether a group has this family's size and none of its ranks."""
        return self.size == len(group.ranks) and not any(r in self.place for r in group.ranks)

    def group_of(self, rank: int) -> tuple[int, ...]:
        """The ranks of a rank's group; () for a rank that is in none."""
        place = self.place.get(rank)
        return () if place is None else self.groups[place[0]]

    def position(self, rank: int) -> int:
        """The place of a rank in its group, -1 for one that is in none."""
        return self.place.get(rank, (-1, -1))[1]


class Families:
    """The families of a program, from the groups in the order all ranks make them.

    A group joins the latest family with the same label and size that has none of its ranks. Where a
    rank created only the group it is in, the others are assumed to repeat its pattern over the world.
    """

    def __init__(self, groups: Sequence[CreatedGroup], world: int) -> None:
        self.world = world
        self.listed: list[Family] = []
        self._labels: list[str] = []
        self._of_group: dict[tuple[int, ...], list[Family]] = {}
        for group in groups:
            self._of_group.setdefault(group.ranks, []).append(self._home(group))
        for family in self.listed:
            _complete(family, world)
        self._name()

    def _home(self, group: CreatedGroup) -> Family:
        for family, label in zip(reversed(self.listed), reversed(self._labels), strict=True):
            if label == group.label and family.takes(group):
                family.add(group.ranks)
                return family
        family = Family(group.label, len(group.ranks))
        family.add(group.ranks)
        self.listed.append(family)
        self._labels.append(group.label)
        return family

    def _name(self) -> None:
        """Roles that tell families apart: labels, or sizes where there is none."""
        for family in self.listed:
            if family.role in ("", "undefined", "default_pg"):
                family.role = "world" if family.size == self.world else f"group_of_{family.size}"
        uses: Counter[str] = Counter()
        for family in self.listed:
            uses[family.role] += 1
            if uses[family.role] > 1:
                family.role = f"{family.role}_{uses[family.role]}"

    def of_recorded(self, groups: Sequence[CreatedGroup]) -> dict[str, Family]:
        """The family of every group name in one rank's program."""
        family_of: dict[str, Family] = {}
        used: Counter[tuple[int, ...]] = Counter()
        for group in groups:
            homes = self._of_group.get(group.ranks) or self._fitting(group)
            if homes:
                family_of[group.name] = homes[min(used[group.ranks], len(homes) - 1)]
            used[group.ranks] += 1
        return family_of

    def _fitting(self, group: CreatedGroup) -> list[Family]:
        """Families with a group of exactly these ranks, for a group that only another rank created."""
        return [f for f in self.listed if group.ranks and f.group_of(group.ranks[0]) == group.ranks]

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Position of a rank in each family."""
        return tuple(f.position(rank) for f in self.listed)


def _complete(family: Family, world: int) -> None:
    """Add counterparts of a family's only group, if its ranks are evenly spaced, by shifting it."""
    ranks = family.groups[0]
    if len(family.groups) > 1 or len(ranks) < 2 or family.size == world or world % family.size:
        return
    stride = ranks[1] - ranks[0]
    extent = stride * family.size
    if stride < 1 or world % extent or any(b - a != stride for a, b in pairwise(ranks)):
        return
    for block in range(0, world, extent):
        for offset in range(stride):
            first = block + offset
            if first not in family.place:
                family.add(tuple(range(first, first + extent, stride)))


def relative_peer(comm: CommCall, members: tuple[int, ...], position: int) -> int:
    """A message's peer as its distance ahead in the group, modulo its size; a root as its place."""
    if comm.kind in (words.SEND, words.RECV) and members:
        return (comm.peer - position) % len(members)
    return comm.peer


def digest(recording: CapturedRank, families: Families, step: int | None = None) -> str:
    """A hash of operators, modules, phases and communication, of one step or of all."""
    homes = families.of_recorded(recording.groups)
    hashed = hashlib.sha256()
    # Plain values say where in a tensor a rank's own part begins: they differ between ranks of one kind.
    signatures = [
        msgspec.json.encode(msgspec.structs.replace(s, inputs_values=""))
        for s in recording.signatures
    ]
    for op in recording.ops:
        if step is not None and op.step != step:
            continue
        hashed.update(signatures[op.signature])
        hashed.update(
            f"{recording.modules[op.module]}|{op.phase}|{op.micro_batch}|{op.stream}".encode()
        )
        if op.comm >= 0:
            hashed.update(_encoded(recording.comms[op.comm], homes, recording.rank))
    hashed.update(str(recording.parameters).encode())
    return hashed.hexdigest()


def _encoded(comm: CommCall, homes: dict[str, Family], rank: int) -> bytes:
    family = homes.get(comm.group)
    role = comm.group if family is None else family.role
    members = family.group_of(rank) if family is not None else ()
    position = family.position(rank) if family is not None else -1
    facts = (
        role,
        relative_peer(comm, members, position),
        comm.kind,
        comm.in_bytes,
        comm.out_bytes,
        comm.dtype,
        comm.tag,
        comm.in_splits,
        comm.out_splits,
    )
    return msgspec.json.encode(facts)
