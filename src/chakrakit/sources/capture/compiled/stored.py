"""Stored: which results of a compiled graph are in memory, and what kernels read instead of the others.

A result is written where an operator with a kernel of its own reads it, where the program gets it, or where
another kernel needs it and what it was computed from is larger than itself. All others are computed again
wherever they are read, backward included, from what is in memory.
"""

from __future__ import annotations

import math

from chakrakit.operators import GATHERS, Operand, is_in_place
from chakrakit.sources.capture.compiled.grouping import FusionGroup
from chakrakit.sources.capture.compiled.pieces import GraphPiece, PieceKind, Value
from chakrakit.sources.capture.recording import Lifetimes

Sources = dict[int, Operand]
"""Storages, and as which tensor each is read."""
_STATISTICS = 2
"""Numbers that a row's softmax is computed again from: its maximum and its sum."""


class StorageRule:
    """Decides for every value, in the order in which they are written."""

    def __init__(
        self, pieces: list[GraphPiece], groups: dict[int, FusionGroup], lifetimes: Lifetimes
    ) -> None:
        self.pieces, self.groups, self.lifetimes = pieces, groups, lifetimes
        self.statistics: dict[FusionGroup, Sources] = {}
        """What groups write besides, for those that compute a row's results again."""
        self._ends = {p.graph: p.place for p in pieces}
        self._returned = set(lifetimes.returned)
        self._stored: dict[Value, bool] = {}
        self._inlined: dict[Value, Sources] = {}
        for piece in pieces:
            for value in piece.writes:
                self._stored[value] = not piece.fusible or self._is_stored(value, piece)

    def __call__(self, value: Value) -> bool:
        """Whether a value is in memory after its kernel."""
        return self._stored[value]

    def reads(self, group: FusionGroup) -> Sources:
        """What a kernel reads from memory."""
        sources: Sources = {}
        for piece in group.pieces:
            for storage, operand, value in piece.reads:
                if value is None or self.groups.get(value.writer) is not group:
                    _merge(sources, self._source(storage, _read_part(piece, operand), value))
        return sources

    def computed_again(self, group: FusionGroup) -> list[GraphPiece]:
        """Operators of other kernels whose results this one computes for itself."""
        again: dict[int, GraphPiece] = {}
        waiting = [v for p in group.pieces for _, _, v in p.reads if v is not None]
        while waiting:
            value = waiting.pop()
            if self.groups.get(value.writer) in (None, group) or self._stored[value]:
                continue
            if value.writer not in again:
                again[value.writer] = writer = self.pieces[value.writer]
                waiting += [v for _, _, v in writer.reads if v is not None]
        return list(again.values())

    def _source(self, storage: int, operand: Operand, value: Value | None) -> Sources:
        if value is None or self._stored[value]:
            return {storage: operand}
        return self._inlined_sources(value)

    def _inlined_sources(self, value: Value) -> Sources:
        """What a value that is not in memory is computed again from."""
        known = self._inlined.get(value)
        if known is None:
            writer = self.pieces[value.writer]
            known = {}
            for storage, operand, earlier in writer.reads:
                _merge(known, self._source(storage, _read_part(writer, operand), earlier))
            if writer.kind is PieceKind.ROWS:
                _merge(known, self._row_statistics(writer))
            self._inlined[value] = known
        return known

    def _row_statistics(self, piece: GraphPiece) -> Sources:
        """A norm's mean and deviation, or two numbers for every row of a softmax."""
        small = {v.storage: v.operand for v in piece.writes if v.operand.elements < piece.space}
        if small:
            return small
        return {-1 - piece.place: Operand((piece.rows, _STATISTICS), 4, "float")}

    def _is_stored(self, value: Value, writer: GraphPiece) -> bool:
        if is_in_place(writer.call.name) or self._leaves(value, writer):
            return True
        elsewhere = {self.groups[r] for r in value.readers} - {self.groups[writer.place]}
        if not elsewhere:
            return False
        if value.operand.elements < writer.space or writer.kind is PieceKind.CHANNELS:
            return True
        sources = self._inlined_sources(value)
        read = {s for g in elsewhere for p in g.pieces for s, _, _ in p.reads}
        if writer.kind is PieceKind.ROWS:
            read |= set(self._row_statistics(writer))
        if sum(o.touched for s, o in sources.items() if s not in read) > value.bytes:
            del self._inlined[value]
            return True
        written = {s: o for s, o in sources.items() if s < 0}
        self.statistics.setdefault(self.groups[writer.place], {}).update(written)
        return False

    def _leaves(self, value: Value, writer: GraphPiece) -> bool:
        """Whether something outside of this compiled call's kernels gets the value."""
        if value.storage in self._returned:
            return True
        if any(
            r not in self.groups or self.pieces[r].graph[0] != writer.graph[0]
            for r in value.readers
        ):
            return True
        died = self.lifetimes.died.get(value.storage, math.inf)
        return writer.graph[1] and died > self._ends[writer.graph]


def _read_part(piece: GraphPiece, operand: Operand) -> Operand:
    """The part of a tensor that an operator reads: a lookup reads as many elements as it gives."""
    first = piece.call.tensors[:1]
    if piece.call.short in GATHERS and first and operand is first[0] and piece.writes:
        result = piece.writes[0].operand
        return result if result.elements < operand.elements else operand
    return operand


def _merge(sources: Sources, more: Sources) -> None:
    for storage, operand in more.items():
        known = sources.get(storage)
        if known is None or known.touched < operand.touched:
            sources[storage] = operand
