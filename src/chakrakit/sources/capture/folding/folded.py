"""Kinds of ranks as a folded TraceSet: one body each, every rank bound to its own groups and peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chakrakit.results import Result
from chakrakit.sources.capture.folding.bodies import collective_name, trace_of
from chakrakit.sources.capture.folding.families import Families, Family, relative_peer
from chakrakit.sources.capture.folding.kinds import Kind
from chakrakit.sources.capture.recording import Comm, Recording, Signature
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Card, TraceSet


def fold(kinds: Sequence[Kind], families: Families, card: Card) -> TraceSet:
    """All ranks; a kind whose ranks cannot share a body's peers is split."""
    numbering = _Numbering(kinds, families)
    bodies: list[Trace] = []
    bindings: dict[int, Binding] = {}
    for kind in _splittable(kinds, families):
        used = _Used(kind.recording, families)
        for rank in kind.ranks:
            bindings[rank] = Binding(len(bodies), numbering.names(used, rank), used.peers(rank))
        bodies.append(trace_of(kind.recording, used.roles, used.peer_now))
    return TraceSet(bodies, bindings, Groups(numbering.groups), card)


class _Numbering:
    """Names of groups: numbers, in the order of families and of their groups."""

    def __init__(self, kinds: Sequence[Kind], families: Families) -> None:
        used = {f.role for k in kinds for f in _Used(k.recording, families).families.values()}
        self.groups: dict[str, tuple[int, ...]] = {}
        self._names: dict[str, list[str]] = {}
        for family in families.listed:
            if family.role in used:
                names = [str(len(self.groups) + 1 + i) for i in range(len(family.groups))]
                self.groups |= dict(zip(names, family.groups, strict=True))
                self._names[family.role] = names

    def names(self, used: _Used, rank: int) -> dict[str, str]:
        """A rank's own group for each role its body names."""
        return {
            f.role: self._names[f.role][f.place[rank][0]]
            for f in used.families.values()
            if rank in f.place
        }


class _Used:
    """What a recording says of groups and peers, for the rank it was made of and for others."""

    def __init__(self, recording: Recording, families: Families) -> None:
        self.recording = recording
        homes = families.of_recorded(recording.groups)
        named = {c.group for c in recording.comms}
        self.families: dict[str, Family] = {g: homes[g] for g in sorted(named) if g in homes}
        self.roles = {g: f.role for g, f in self.families.items()}
        self._messages = [c for c in recording.comms if c.kind in (words.SEND, words.RECV)]

    def peer_now(self, comm: Comm) -> int:
        """The rank of a message's peer or a collective's root; -1 where there is none."""
        members = self._members(comm, self.recording.rank)
        if not 0 <= comm.peer < len(members):
            return -1
        if comm.kind not in (words.SEND, words.RECV) and self._messages:
            return -1  # a root that is a peer too could not be told apart in a binding
        return members[comm.peer]

    def _members(self, comm: Comm, rank: int) -> tuple[int, ...]:
        family = self.families.get(comm.group)
        return () if family is None else family.group_of(rank)

    def peers(self, rank: int) -> dict[int, int]:
        """For each rank the body names, who that is for another rank."""
        if rank == self.recording.rank:
            return {}
        found = {self.recording.rank: rank} if self._messages else {}
        return found | dict(self._pairs(rank))

    def _pairs(self, rank: int) -> Iterator[tuple[int, int]]:
        for comm in self._distinct():
            now = self.peer_now(comm)
            if now >= 0:
                yield now, self._counterpart(comm, rank)

    def _distinct(self) -> list[Comm]:
        seen = {(c.group, c.peer, c.kind): c for c in self.recording.comms if c.peer >= 0}
        return list(seen.values())

    def _counterpart(self, comm: Comm, rank: int) -> int:
        family = self.families[comm.group]
        members = family.group_of(rank)
        if comm.kind not in (words.SEND, words.RECV):
            return members[comm.peer]
        ahead = relative_peer(
            comm, self._members(comm, self.recording.rank), family.position(self.recording.rank)
        )
        return members[(family.position(rank) + ahead) % len(members)]

    def is_clear(self, rank: int) -> bool:
        """Whether one rank of the body never has to be two."""
        found: dict[int, int] = {self.recording.rank: rank} if self._messages else {}
        return all(found.setdefault(now, then) == then for now, then in self._pairs(rank))


def _splittable(kinds: Sequence[Kind], families: Families) -> Iterator[Kind]:
    """Ranks whose peers a binding cannot name get a body of their own, with the peers in it."""
    for kind in kinds:
        used = _Used(kind.recording, families)
        clear = [r for r in kind.ranks if used.is_clear(r)]
        yield Kind(kind.recording, clear)
        for rank in sorted(set(kind.ranks) - set(clear)):
            yield Kind(_as_rank(kind.recording, families, rank), [rank])


def _as_rank(recording: Recording, families: Families, rank: int) -> Recording:
    """The recording as if it had been made of another rank of its kind."""
    homes = families.of_recorded(recording.groups)
    comms = []
    for comm in recording.comms:
        family = homes.get(comm.group)
        if family is not None and comm.kind in (words.SEND, words.RECV):
            ahead = relative_peer(
                comm, family.group_of(recording.rank), family.position(recording.rank)
            )
            peer = (family.position(rank) + ahead) % family.size
            comm = msgspec.structs.replace(comm, peer=peer)
        comms.append(comm)
    return msgspec.structs.replace(recording, rank=rank, comms=comms)


# What a capture amounts to, for people and for `--json`.


class KindFigures(msgspec.Struct, frozen=True):
    """Ranks that run the same program, and what each of them does in the captured steps."""

    ranks: int
    nodes: int
    flops: int
    """Of matrix products, convolutions and attention, as `chakra generate` counts them."""
    parameters: int
    """Of the modules that ran; a sharded parameter counts as a whole."""
    peak_bytes: int


class CollectiveFigures(msgspec.Struct, frozen=True):
    """Collectives or messages of one type and group: totals of one rank over the captured steps."""

    type: str
    group: str
    count: int
    bytes: int


class CaptureReport(Result, msgspec.Struct, frozen=True):
    """The result of `chakra capture`."""

    ranks: int
    kinds: list[KindFigures]
    collectives: list[CollectiveFigures]
    stubbed: list[str]
    warnings: list[str]


def report_of(kinds: Sequence[Kind], families: Families, warnings: Sequence[str]) -> CaptureReport:
    """Figures of every kind; a collective is that of the first kind that has it."""
    found: dict[tuple[str, str], CollectiveFigures] = {}
    for kind in kinds:
        for figures in _collectives(kind, families):
            found.setdefault((figures.type, figures.group), figures)
    told = [w for k in kinds for w in k.recording.warnings] + list(warnings)
    return CaptureReport(
        sum(len(k.ranks) for k in kinds),
        [_figures(k) for k in kinds],
        [found[key] for key in sorted(found)],
        sorted({s for k in kinds for s in k.recording.stubbed}),
        list(dict.fromkeys(told)),
    )


def _figures(kind: Kind) -> KindFigures:
    made = kind.recording
    flops = sum(_model_flops(made.signatures[op.signature]) for op in made.ops)
    return KindFigures(len(kind.ranks), len(made.ops), flops, made.parameters, made.peak_bytes)


def _model_flops(signature: Signature) -> int:
    """Matrix work of the model; a fused attention's backward makes the scores once more by itself."""
    fused = "attention" in signature.name and signature.name.endswith("_backward")
    return signature.flops * 4 // 5 if fused else signature.flops


def _collectives(kind: Kind, families: Families) -> list[CollectiveFigures]:
    made = kind.recording
    homes = families.of_recorded(made.groups)
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for op in made.ops:
        if op.comm >= 0:
            comm = made.comms[op.comm]
            family = homes.get(comm.group)
            key = (collective_name(comm.kind), comm.group if family is None else family.role)
            count, size = totals.get(key, (0, 0))
            totals[key] = (count + 1, size + comm.in_bytes)
    return [CollectiveFigures(*key, *total) for key, total in totals.items()]
