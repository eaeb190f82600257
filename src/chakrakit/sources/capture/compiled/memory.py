"""Memory: what operators allocate and free once their results are kernels' inner business."""

from __future__ import annotations

from chakrakit.operators import Operand, type_of_cpp
from chakrakit.sources.capture.compiled.pieces import GraphPiece, Value
from chakrakit.sources.capture.observing import rounded
from chakrakit.sources.capture.recording import CapturedRank, Op


class CompiledMemory:
    """Bytes allocated and freed by each operator of a recording, changed, and handed to its kernels."""

    def __init__(self, recording: CapturedRank, pieces: list[GraphPiece]) -> None:
        self._alloc = [op.alloc for op in recording.ops]
        self._free = [op.free for op in recording.ops]
        self._start, self._peak = recording.start_bytes, recording.peak_bytes
        self._before = _peak(self._start, list(zip(self._alloc, self._free, strict=True)))
        self._died = dict(recording.lifetimes.died)
        self._values = {v.storage: v for p in pieces for v in p.writes if p.fusible}
        self._put_off = 0

    def take_back(self, value: Value) -> None:
        """A storage is never allocated."""
        size = rounded(value.operand.elements * value.operand.each)
        if self._alloc[value.writer] < size:
            return  # an earlier operator allocated it
        died = self._died.pop(value.storage, None)
        self._alloc[value.writer] -= size
        if died is not None:
            self._free[died] -= min(size, self._free[died])

    def keep_until(self, storage: int, place: int) -> None:
        """A storage that would have died lives until an operator that now reads it."""
        died, value = self._died.get(storage), self._values.get(storage)
        if died is None or value is None or died >= place:
            return
        size = min(rounded(value.operand.elements * value.operand.each), self._free[died])
        self._free[died] -= size
        self._free[place] += size
        self._died[storage] = place

    def hand_over(self, pieces: list[GraphPiece], kernel: list[Op], earlier: list[Op]) -> None:
        """A kernel allocates and frees for its operators.

        Operators that no longer run leave what they allocate to the next kernel, and what they free to the
        one before.
        """
        alloc = self._put_off + sum(self._alloc[p.place] for p in pieces)
        free = sum(self._free[p.place] for p in pieces)
        self._put_off = 0 if kernel else alloc
        for op in kernel:
            op.alloc, op.free = alloc, op.free + free
        for op in earlier if not kernel else ():
            op.free += free

    def peak_after(self, ops: list[Op]) -> int:
        """The most memory that is held: the measured peak, by as much lower as the changes make it."""
        after = _peak(self._start, [(op.alloc, op.free) for op in ops])
        return self._peak - (self._before - after)

    @staticmethod
    def dtype_of(operand: Operand) -> str:
        """The name of a tensor's element type."""
        element = type_of_cpp(operand.dtype)
        return operand.dtype if element is None else element.name


def _peak(start: int, changes: list[tuple[int, int]]) -> int:
    held = most = start
    for alloc, free in changes:
        most = max(most, held + alloc)
        held += alloc - free
    return most
