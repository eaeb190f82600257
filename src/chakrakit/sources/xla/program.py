"""The devices of an HLO program as ranks: the groups and peers of each, and which ranks share a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chakrakit.sources.xla.columns import body_of
from chakrakit.sources.xla.hlo import Module
from chakrakit.sources.xla.rows import HloProgram, ProgramRow, program_of
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Card, TraceSet


def traces_of(module: Module, card: Card | None = None) -> TraceSet:
    """The traces of all devices."""
    return BoundProgram(
        program_of(module), card or Card(name=module.name, tool="chakra link")
    ).traces()


class BoundProgram:
    """A program with its ranks: the groups and peers of each, and which ranks share a body."""

    def __init__(self, program: HloProgram, card: Card) -> None:
        self.program, self.card = program, card
        self.devices = program.module.devices
        self._roles: dict[tuple[tuple[int, ...], ...], str] = {}
        self.groups: dict[str, tuple[int, ...]] = {}
        self._names: dict[str, list[str]] = {}
        for row in program.rows:
            if row.kind >= 0 and self._whole(row.groups) not in self._roles:
                self._add(self._whole(row.groups))

    def _whole(self, groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return groups or (tuple(range(self.devices)),)

    def _add(self, groups: tuple[tuple[int, ...], ...]) -> None:
        role = f"groups_of_{len(groups[0])}" if len(groups) > 1 else "all"
        role = role if role not in self._names else f"{role}_{len(self._roles) + 1}"
        self._roles[groups] = role
        names = [str(len(self.groups) + 1 + i) for i in range(len(groups))]
        self._names[role] = names
        self.groups |= dict(zip(names, groups, strict=True))

    def role(self, row: ProgramRow) -> str:
        """What a row's group is called in every body."""
        return self._roles[self._whole(row.groups)]

    def traces(self) -> TraceSet:
        """A body for each set of ranks that takes part in the same messages."""
        bodies: list[Trace] = []
        first: dict[tuple[Any, ...], tuple[int, dict[int, int]]] = {}
        bindings: dict[int, Binding] = {}
        for rank in range(self.devices):
            ends = self._ends(rank)
            key = tuple((s is None, d is None) for s, d in ends)
            shared = first.get(key)
            peers = _renamed(shared[1], ends, rank) if shared else None
            if shared is None or peers is None:
                first[key] = shared = (len(bodies), dict(enumerate(_flat(ends, rank))))
                bodies.append(self._body(rank, ends))
                peers = {}
            bindings[rank] = Binding(shared[0], self._own_groups(rank), peers)
        return TraceSet(bodies, bindings, Groups(self.groups), self.card)

    def _own_groups(self, rank: int) -> dict[str, str]:
        out = {}
        for groups, role in self._roles.items():
            for name, members in zip(self._names[role], groups, strict=True):
                if rank in members:
                    out[role] = name
        return out

    def _ends(self, rank: int) -> list[tuple[int | None, int | None]]:
        """For each distinct permutation, the device a rank receives from and the one it sends to."""
        permutations = dict.fromkeys(r.pairs for r in self.program.rows if r.pairs)
        return [
            (
                next((s for s, d in pairs if d == rank), None),
                next((d for s, d in pairs if s == rank), None),
            )
            for pairs in permutations
        ]

    def _body(self, rank: int, ends: list[tuple[int | None, int | None]]) -> Trace:
        permutations = list(dict.fromkeys(r.pairs for r in self.program.rows if r.pairs))
        peers = dict(zip(permutations, ends, strict=True))
        return body_of(self.program, self.role, rank, peers)


def _flat(ends: Sequence[tuple[int | None, int | None]], rank: int) -> list[int]:
    return [rank, *(-1 if e is None else e for pair in ends for e in pair)]


def _renamed(
    first: dict[int, int], ends: Sequence[tuple[int | None, int | None]], rank: int
) -> dict[int, int] | None:
    """For each peer in a body, the one `rank` has instead; None if one would stand for two."""
    out: dict[int, int] = {}
    for place, peer in enumerate(_flat(ends, rank)):
        if first[place] >= 0 and out.setdefault(first[place], peer) != peer:
            return None
    return out if len(first) > 1 else {}
