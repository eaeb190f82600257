"""Pieces: the operators of a recording as a compiler sees them, with the values they read and write."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from chakrakit.operators import (
    CHANNEL_NORMS,
    FOLDS,
    GATHERS,
    ROW_NORMS,
    UNFUSED,
    ArgumentTexts,
    Call,
    Operand,
    Work,
    operator_of,
    read_call,
)
from chakrakit.sources.capture.recording import PHASES, CapturedRank, Signature

_BACKWARD = (PHASES.index("backward"), PHASES.index("recompute"))


class PieceKind(Enum):
    """What a compiler does with an operator."""

    LIBRARY = "library"
    """Calls it: products, convolutions, attention, communication, and whatever is not compiled."""
    STILL = "still"
    """Nothing: views and allocations are arithmetic on addresses."""
    POINT = "point"
    """Computes it element by element."""
    ROWS = "rows"
    """Folds the last dimensions, whole rows at a time."""
    COLUMNS = "columns"
    """Folds the first dimensions, or everything, in a kernel of its own."""
    CHANNELS = "channels"
    """Folds channels across a batch, and then computes element by element."""


@dataclass(eq=False)
class Value:
    """What one operator wrote to one storage."""

    storage: int
    writer: int
    operand: Operand
    readers: list[int] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Bytes that a kernel writes."""
        return self.operand.touched


@dataclass(eq=False)
class GraphPiece:
    """An operator of the recording."""

    place: int
    kind: PieceKind
    graph: tuple[int, bool]
    """The compiled call, and whether this is its backward; -1 outside."""
    call: Call
    reads: list[tuple[int, Operand, Value | None]] = field(default_factory=list)
    """Storages, as which tensor each is read, and what wrote it in this recording."""
    writes: list[Value] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    """Operators that must have run because of a storage that this one writes to again."""

    @property
    def fusible(self) -> bool:
        """Whether it may share a kernel."""
        return self.kind not in (PieceKind.LIBRARY, PieceKind.STILL)

    @property
    def space(self) -> int:
        """Elements that a kernel goes through for it."""
        first = self.call.tensors[0].elements if self.call.tensors else 0
        results = max((v.operand.elements for v in self.writes), default=0)
        return max(first, results) if self.kind is not PieceKind.POINT else results or first

    @property
    def rows(self) -> int:
        """How many rows it folds; 0 where it folds none."""
        if self.kind is not PieceKind.ROWS:
            return 0
        if self.call.short == "nll_loss_forward":
            return self.call.tensors[1].elements
        if self.call.short in FOLDS:
            return min((v.operand.elements for v in self.writes), default=0)
        return self.space // max(1, _row_length(self.call))


def _row_length(call: Call) -> int:
    """Elements that a norm or softmax treats as one row."""
    shape = call.tensors[0].shape
    if "softmax" in call.short:
        return shape[call.number(-1 if "backward" in call.short else 1, -1)] if shape else 1
    if "group_norm" in call.short:
        return math.prod(shape) // max(1, call.number(-2, 1) * shape[0])
    sizes = call.numbers(2 if "backward" in call.short else 1)
    return math.prod(sizes or shape[-1:])


def pieces_of(recording: CapturedRank) -> list[GraphPiece]:
    """All operators, with the values that pass between them."""
    calls = [_call(s) for s in recording.signatures]
    writer: dict[int, Value] = {}
    readers: dict[int, list[int]] = {}
    pieces = []
    for place, op in enumerate(recording.ops):
        call = calls[op.signature]
        kind = _kind(recording, place, call)
        piece = GraphPiece(place, kind, (op.compiled, op.phase in _BACKWARD), call)
        pieces.append(piece)
        for storage, operand in _paired(op.reads, call.tensors):
            value = writer.get(storage)
            piece.reads.append((storage, operand, value))
            if kind is PieceKind.STILL:
                continue  # a view reads nothing, so that nobody waits for it
            if value is not None:
                value.readers.append(place)
            readers.setdefault(storage, []).append(place)
        if kind is PieceKind.STILL:
            continue
        again = call.outputs or call.tensors[:1]
        for storage, operand in _paired(op.writes, list(again)):
            earlier = writer.get(storage)
            piece.before += [p for p in readers.pop(storage, ()) if p != place]
            piece.before += [] if earlier is None else [earlier.writer]
            writer[storage] = Value(storage, place, operand)
            piece.writes.append(writer[storage])
    return pieces


def _paired(storages: list[int], operands: list[Operand]) -> list[tuple[int, Operand]]:
    """Storages with the tensors they are read or written as; the last tensor stands for those without."""
    if not operands:
        return []
    return [(s, operands[min(i, len(operands) - 1)]) for i, s in enumerate(storages)]


def _call(signature: Signature) -> Call:
    s = signature
    outputs = ArgumentTexts(s.outputs_shapes, s.outputs_types, s.outputs_strides)
    return read_call(
        s.name, s.inputs_shapes, s.inputs_types, s.inputs_strides, s.inputs_values, outputs
    )


def _kind(recording: CapturedRank, place: int, call: Call) -> PieceKind:
    op = recording.ops[place]
    if op.comm >= 0 or op.waits_for >= 0 or op.is_host:
        return PieceKind.LIBRARY
    if recording.signatures[op.signature].is_host:
        return PieceKind.STILL
    operator, short = operator_of(call.name), call.short
    if op.compiled < 0 or not call.name.startswith("aten::") or short in UNFUSED:
        return PieceKind.LIBRARY
    if short in CHANNEL_NORMS:
        return PieceKind.CHANNELS
    if short in ROW_NORMS:
        return PieceKind.ROWS
    if short in FOLDS:
        return _folded(call)
    if operator.work is Work.INDEX:
        return PieceKind.POINT if short in GATHERS else PieceKind.LIBRARY
    return PieceKind.POINT if operator.work in (Work.VECTOR, Work.COPY) else PieceKind.LIBRARY


def _folded(call: Call) -> PieceKind:
    """Whether a fold goes along rows: its result has the first dimensions of what it folds."""
    if call.short == "nll_loss_forward":
        return PieceKind.ROWS
    x, result = call.tensor(0), call.outputs[0] if call.outputs else None
    if x is None or result is None or result.elements <= 1:
        return PieceKind.COLUMNS
    kept = math.prod(x.shape[: _leading(x.shape, result.shape)])
    return PieceKind.ROWS if kept == result.elements else PieceKind.COLUMNS


def _leading(shape: tuple[int, ...], result: tuple[int, ...]) -> int:
    """How many first dimensions two shapes share."""
    same = (i for i, (a, b) in enumerate(zip(shape, result, strict=False)) if a != b)
    return next(same, min(len(shape), len(result)))
