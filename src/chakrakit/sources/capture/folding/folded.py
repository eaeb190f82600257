"""Kinds of ranks as a TraceSet, with one body per kind and every rank bound to it; and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from chakrakit.operators import computed_again
from chakrakit.results import Result
from chakrakit.sources.capture.folding.bodies import collective_name, trace_of
from chakrakit.sources.capture.folding.families import Families, Family, relative_peer
from chakrakit.sources.capture.folding.kinds import RankKind
from chakrakit.sources.capture.recording import CapturedRank, CommCall, Signature
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, Trace
from chakrakit.trace.sets import Card, TraceSet


def fold(kinds: Sequence[RankKind], families: Families, card: Card) -> TraceSet:
    """The traces of all ranks; a kind whose ranks cannot share a body's peers is split."""
    numbering = _Numbering(kinds, families)
    bodies: list[Trace] = []
    bindings: dict[int, Binding] = {}
    for kind in _splittable(kinds, families):
        used = _GroupUse(kind.recording, families)
        for rank in kind.ranks:
            bindings[rank] = Binding(len(bodies), numbering.names(used, rank), used.peers(rank))
        bodies.append(trace_of(kind.recording, used.roles, used.peer_now))
    return TraceSet(bodies, bindings, Groups(numbering.groups), card)


class _Numbering:
    """Numbers the groups that are in use, in the order of families and of their groups."""

    def __init__(self, kinds: Sequence[RankKind], families: Families) -> None:
        used = {f.role for k in kinds for f in _GroupUse(k.recording, families).families.values()}
        self.groups: dict[str, tuple[int, ...]] = {}
        self._names: dict[str, list[str]] = {}
        for family in families.listed:
            if family.role in used:
                names = [str(len(self.groups) + 1 + i) for i in range(len(family.groups))]
                self.groups |= dict(zip(names, family.groups, strict=True))
                self._names[family.role] = names

    def names(self, used: _GroupUse, rank: int) -> dict[str, str]:
        """The name of the group that a rank has for each role in its body."""
        return {
            f.role: self._names[f.role][f.place[rank][0]]
            for f in used.families.values()
            if rank in f.place
        }


class _GroupUse:
    """The groups and peers that a recording uses, for the recorded rank and for others of its kind."""

    def __init__(self, recording: CapturedRank, families: Families) -> None:
        self.recording = recording
        homes = families.of_recorded(recording.groups)
        group_names = {c.group for c in recording.comms}
        self.families: dict[str, Family] = {g: homes[g] for g in sorted(group_names) if g in homes}
        self.roles = {g: f.role for g, f in self.families.items()}
        self._messages = [c for c in recording.comms if c.kind in (words.SEND, words.RECV)]

    def peer_now(self, comm: CommCall) -> int:
        """The rank of a message's peer or a collective's root; -1 where there is none."""
        members = self._members(comm, self.recording.rank)
        if not 0 <= comm.peer < len(members):
            return -1
        if comm.kind not in (words.SEND, words.RECV) and self._messages:
            return -1  # a root that is a peer too could not be distinguished in a binding
        return members[comm.peer]

    def _members(self, comm: CommCall, rank: int) -> tuple[int, ...]:
        family = self.families.get(comm.group)
        return () if family is None else family.group_of(rank)

    def peers(self, rank: int) -> dict[int, int]:
        """For each rank that the body names, the rank it stands for when `rank` runs the body."""
        if rank == self.recording.rank:
            return {}
        itself = {self.recording.rank: rank} if self._messages else {}
        return itself | dict(self._pairs(rank))

    def _pairs(self, rank: int) -> Iterator[tuple[int, int]]:
        for comm in self._distinct():
            now = self.peer_now(comm)
            if now >= 0:
                yield now, self._counterpart(comm, rank)

    def _distinct(self) -> list[CommCall]:
        by_peer = {(c.group, c.peer, c.kind): c for c in self.recording.comms if c.peer >= 0}
        return list(by_peer.values())

    def _counterpart(self, comm: CommCall, rank: int) -> int:
        family = self.families[comm.group]
        members = family.group_of(rank)
        if comm.kind not in (words.SEND, words.RECV):
            return members[comm.peer]
        ahead = relative_peer(
            comm, self._members(comm, self.recording.rank), family.position(self.recording.rank)
        )
        return members[(family.position(rank) + ahead) % len(members)]

    def is_clear(self, rank: int) -> bool:
        """Whether no rank in the body would stand for two different ones when `rank` runs it."""
        counterpart_of: dict[int, int] = {self.recording.rank: rank} if self._messages else {}
        return all(counterpart_of.setdefault(now, then) == then for now, then in self._pairs(rank))


def _splittable(kinds: Sequence[RankKind], families: Families) -> Iterator[RankKind]:
    """The kinds; ranks whose peers a binding cannot name are split off, with their peers in the recording."""
    for kind in kinds:
        used = _GroupUse(kind.recording, families)
        clear = [r for r in kind.ranks if used.is_clear(r)]
        yield RankKind(kind.recording, clear)
        for rank in sorted(set(kind.ranks) - set(clear)):
            yield RankKind(_as_rank(kind.recording, families, rank), [rank])


def _as_rank(recording: CapturedRank, families: Families, rank: int) -> CapturedRank:
    """The recording rewritten for another rank of its kind."""
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


class KindFigures(msgspec.Struct, frozen=True):
    """Ranks that run the same program, and what each of them does in the captured steps."""

    ranks: int
    nodes: int
    flops: int
    """Of matrix products, convolutions and attention, as `chakra generate` counts them."""
    parameters: int
    """Of the modules that ran, or where none has any, those that optimizers update; a sharded one counts
    as a whole."""
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
    ran: list[int]
    """The ranks that were run, some for their first step alone; all others are taken to be like these."""


def report_of(
    kinds: Sequence[RankKind], families: Families, warnings: Sequence[str], ran: Sequence[int] = ()
) -> CaptureReport:
    """Figures of every kind; those of a collective are from the first kind that has it."""
    collectives: dict[tuple[str, str], CollectiveFigures] = {}
    for kind in kinds:
        for figures in _collectives(kind, families):
            collectives.setdefault((figures.type, figures.group), figures)
    all_warnings = [w for k in kinds for w in k.recording.warnings] + list(warnings)
    all_warnings += _disagreements(kinds, families)
    return CaptureReport(
        sum(len(k.ranks) for k in kinds),
        [_figures(k) for k in kinds],
        [collectives[key] for key in sorted(collectives)],
        sorted({s for k in kinds for s in k.recording.stubbed}),
        list(dict.fromkeys(all_warnings)),
        sorted({*ran, *(k.recording.rank for k in kinds)}),
    )


_EQUAL = {CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER}
"""Collectives into which every rank puts as many bytes."""


def _disagreements(kinds: Sequence[RankKind], families: Families) -> Iterator[str]:
    """Names the lines at which ranks that meet put different numbers of bytes into one collective.

    That is what comes of sizes that ranks tell each other and then pad to: each is the captured rank's own.
    """
    met: dict[tuple[tuple[int, ...], str, int], tuple[CommCall, int]] = {}
    lines: set[str] = set()
    for recording in (kind.recording for kind in kinds):
        homes, calls = families.of_recorded(recording.groups), Counter[str]()
        for comm in recording.comms:
            family = homes.get(comm.group)
            if family is None or comm.kind not in _EQUAL:
                continue
            calls[comm.group] += 1
            key = (family.group_of(recording.rank), family.role, calls[comm.group])
            other, rank = met.setdefault(key, (comm, recording.rank))
            alike = (other.kind, other.dtype) == (comm.kind, comm.dtype)
            if alike and other.in_bytes != comm.in_bytes and comm.line not in lines:
                lines.add(comm.line)
                yield (
                    f"{comm.line}: rank {recording.rank} puts {comm.in_bytes:,} bytes into a collective and "
                    f"rank {rank} {other.in_bytes:,}; numbers that ranks tell each other are taken to be the "
                    "captured rank's own, so that ranks pad to different sizes: pad to a constant, or "
                    "`chakra validate` refuses the traces"
                )


def _figures(kind: RankKind) -> KindFigures:
    recording = kind.recording
    flops = sum(_model_flops(recording.signatures[op.signature]) for op in recording.ops)
    return KindFigures(
        len(kind.ranks), len(recording.ops), flops, recording.parameters, recording.peak_bytes
    )


def _model_flops(signature: Signature) -> int:
    """Matrix work of the model; a fused attention's backward makes the scores once more by itself."""
    return round(signature.flops * (1 - computed_again(signature.name)))


def _collectives(kind: RankKind, families: Families) -> list[CollectiveFigures]:
    recording = kind.recording
    homes = families.of_recorded(recording.groups)
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for op in recording.ops:
        if op.comm >= 0:
            comm = recording.comms[op.comm]
            family = homes.get(comm.group)
            key = (collective_name(comm.kind), comm.group if family is None else family.role)
            count, size = totals.get(key, (0, 0))
            totals[key] = (count + 1, size + comm.in_bytes)
    return [CollectiveFigures(*key, *total) for key, total in totals.items()]
