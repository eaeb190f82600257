"""Grouping: which operators of a compiled graph share a kernel.

An operator joins the kernel of one whose result it reads, or of one that reads the same tensor, where both go
through the same elements in the same order: element by element over as many elements, or whole rows of the
same number. It does not where a kernel would then wait for something that waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chakrakit.sources.capture.compiled.pieces import GraphPiece, PieceKind


@dataclass(eq=False)
class FusionGroup:
    """Operators that become one kernel."""

    graph: tuple[int, bool]
    space: int
    rows: int = 0
    closed: bool = False
    """Whether it folds across rows, so that only what reads its result can join."""
    pieces: list[GraphPiece] = field(default_factory=list)
    producers: set[FusionGroup] = field(default_factory=set)
    consumers: set[FusionGroup] = field(default_factory=set)
    after: int = -1
    """The last operator with a kernel of its own that it waits for, through other groups too."""
    before: float = math.inf
    """The first operator with a kernel of its own that waits for it, through other groups too."""

    @property
    def results(self) -> int:
        """Elements of its largest result."""
        return max((v.operand.elements for p in self.pieces for v in p.writes), default=0)

    def takes(self, piece: GraphPiece) -> bool:
        """Whether a piece goes through the same elements in the same order."""
        if self.graph != piece.graph or piece.kind in (PieceKind.COLUMNS, PieceKind.CHANNELS):
            return False
        if self.closed:
            return piece.kind is PieceKind.POINT and piece.space == self.results
        if piece.kind is PieceKind.ROWS:
            return piece.space == self.space and self.rows in (0, piece.rows)
        return piece.space in (self.space, self.rows)


def groups_of(pieces: list[GraphPiece]) -> dict[int, FusionGroup]:
    """The group of every fusible piece, by its place."""
    grouping = _Grouping()
    for piece in pieces:
        if piece.fusible:
            grouping.place(piece)
        elif piece.kind is PieceKind.LIBRARY:
            grouping.pass_by(piece)
    return grouping.groups


class _Grouping:
    def __init__(self) -> None:
        self.groups: dict[int, FusionGroup] = {}
        self._reader: dict[int, FusionGroup] = {}

    def _waits_for(self, piece: GraphPiece) -> Iterator[int]:
        yield from (value.writer for _, _, value in piece.reads if value is not None)
        yield from piece.before

    def pass_by(self, piece: GraphPiece) -> None:
        """Note that an operator with a kernel of its own waits for groups."""
        for place in self._waits_for(piece):
            group = self.groups.get(place)
            if group is not None:
                _ends_before(group, piece.place)

    def place(self, piece: GraphPiece) -> None:
        """Let a piece join a group, or begin one."""
        own = [p for p in self._waits_for(piece) if p not in self.groups]
        producers = {self.groups[p] for p in self._waits_for(piece) if p in self.groups}
        for group in self._candidates(piece):
            rest = producers - {group}
            after = max([*own, *(g.after for g in rest)], default=-1)
            if group.takes(piece) and after < group.before and not _reach(rest, group):
                self._join(group, piece, rest, after)
                return
        after = max([*own, *(g.after for g in producers)], default=-1)
        group = FusionGroup(piece.graph, piece.space, piece.rows)
        group.closed = piece.kind in (PieceKind.COLUMNS, PieceKind.CHANNELS)
        self._join(group, piece, producers, after)

    def _candidates(self, piece: GraphPiece) -> list[FusionGroup]:
        """Groups of what it reads, the last first; then groups that read the same."""
        written = [self.groups.get(v.writer) for _, _, v in reversed(piece.reads) if v is not None]
        beside = [self._reader.get(s) for s, _, _ in piece.reads]
        return list(dict.fromkeys(g for g in (*written, *beside) if g is not None))

    def _join(
        self, group: FusionGroup, piece: GraphPiece, producers: set[FusionGroup], after: int
    ) -> None:
        group.pieces.append(piece)
        group.rows = group.rows or piece.rows
        self.groups[piece.place] = group
        group.producers |= producers
        for producer in producers:
            producer.consumers.add(group)
            _ends_before(producer, group.before)
        _begins_after(group, after)
        for storage, _, _ in piece.reads:
            self._reader[storage] = group


def _ends_before(group: FusionGroup, place: float) -> None:
    """Let a group, and all that it waits for, run before an operator."""
    waiting = [group]
    while waiting:
        one = waiting.pop()
        if place < one.before:
            one.before = place
            waiting += one.producers


def _begins_after(group: FusionGroup, place: int) -> None:
    """Let a group, and all that wait for it, run after an operator."""
    waiting = [group]
    while waiting:
        one = waiting.pop()
        if place > one.after:
            one.after = place
            waiting += one.consumers


def _reach(groups: Iterable[FusionGroup], target: FusionGroup) -> bool:
    """Whether one of the groups waits for the target, through others too."""
    seen: set[FusionGroup] = set()
    waiting = list(groups)
    while waiting:
        one = waiting.pop()
        if one is target:
            return True
        if one not in seen and one.pieces[-1].place > target.pieces[0].place:
            seen.add(one)
            waiting += one.producers
    return False
