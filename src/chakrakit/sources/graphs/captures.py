"""Graphs being captured: the launches that made a CUDA or HIP graph, with the operators they stand in.

A capture file holds launches without kernels. Their order is the order in which the graph's nodes were
made, which is how a replay's kernels find their operators again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges import DeviceModel
from chakrakit.sources.pytorch.match import RowNames, Timeline, nearest
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.sources.pytorch.work import Attribution

BEGIN = r"^(cuda|hip)StreamBeginCapture|^cuStreamBeginCapture"
END = r"^(cuda|hip)StreamEndCapture|^cuStreamEndCapture"
LAUNCH = (
    r"^(cuda|cu|hip|hipExt|hipModule|hipExtModule)Launch(Cooperative)?(Kernel|Device)|"
    r"^(cuda|cu|hip)(Memcpy|Memset)\w*Async|^hipMemcpyWithStream|^cu(Memcpy|Memset)\w*Async"
)
_LABEL = re.compile(r"^capture_(\d+)_(\w+)$")


@dataclass(frozen=True)
class Operator:
    """What a captured launch works for, as the file that captured it says."""

    name: str
    shapes: str
    types: str
    module: str
    layer: int
    phase: int
    call: int
    """Which call of the operator: launches of one call share its work."""
    flops: int
    moved: int
    strides: str = ""
    values: str = ""


@dataclass(frozen=True)
class Capture:
    """One graph as it was captured: an operator per node in the order of the launches.

    `batch` and `mode` come from the serving engine's annotation; -1 and "" where there is none.
    """

    batch: int
    mode: str
    operators: list[Operator]
    kinds: list[Kind]

    def __len__(self) -> int:
        return len(self.operators)


@dataclass(frozen=True)
class Recorded:
    """One recording as far as graphs are concerned; `flops` and `moved` are the work of its rows."""

    line: Timeline
    names: RowNames
    kineto: Kineto
    device: DeviceModel
    attribution: Attribution
    flops: I64
    moved: I64


def has_captures(line: Timeline, names: RowNames) -> bool:
    """Whether a graph was captured while this was recorded."""
    return bool(((line.kind == Kind.CALL) & names.matching(BEGIN)).any())


def find_captures(recorded: Recorded) -> list[Capture]:
    """The captures of a recording, in order."""
    line, names = recorded.line, recorded.names
    is_call = (line.kind == Kind.CALL) & line.is_host
    begins = np.flatnonzero(is_call & names.matching(BEGIN))
    ends = np.flatnonzero(is_call & names.matching(END))
    launches = np.flatnonzero(is_call & names.matching(LAUNCH) & ~_ran(recorded))
    launches = _outermost(line, launches)
    describe = _Describer(recorded)
    out = []
    for begin in begins.tolist():
        after = ends[line.start[ends] > line.end[begin]]
        until = int(line.start[after[0]]) if len(after) else int(line.end.max())
        when = line.start[launches]
        mine = launches[(when >= line.end[begin]) & (when <= until)]
        if len(mine):
            out.append(describe.capture(begin, mine))
    return out


def _ran(recorded: Recorded) -> Mask:
    """Calls whose work is in the file: they were not part of a capture."""
    ran = np.zeros(len(recorded.line), np.bool_)
    call = recorded.device.call
    ran[call[call >= 0]] = True
    return ran


def _outermost(line: Timeline, launches: I64) -> I64:
    """A runtime's launch may hold the driver's: it counts once."""
    inside = np.zeros(len(line), np.bool_)
    inside[launches] = True
    parent = line.parent[launches]
    outer: I64 = launches[(parent < 0) | ~inside[np.maximum(parent, 0)]]
    return outer


class _Describer:
    """Says of launches what operator, shapes and module they belong to."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        line, names = recorded.line, recorded.names
        self.operator = nearest(line, (line.kind == Kind.OPERATOR) & line.is_host)
        self.label = nearest(line, names.where(_LABEL.match) & line.is_host)

    def capture(self, begin: int, launches: I64) -> Capture:
        batch, mode = self._labelled(begin)
        rows = launches.tolist()
        return Capture(
            batch, mode, [self._operator(r) for r in rows], [self._kind(r) for r in rows]
        )

    def _labelled(self, begin: int) -> tuple[int, str]:
        """The annotation around a capture."""
        row = int(self.label[begin])
        match = _LABEL.match(self.recorded.names[row]) if row >= 0 else None
        return (int(match[1]), match[2]) if match else (-1, "")

    def _kind(self, row: int) -> Kind:
        name = self.recorded.names[row]
        return Kind.MEMCPY if "emcpy" in name else Kind.MEMSET if "emset" in name else Kind.KERNEL

    def _operator(self, row: int) -> Operator:
        at = int(self.operator[row])
        if at < 0:
            return Operator("", "", "", *self._place(row), -1, 0, 0)
        recorded = self.recorded
        shapes, types = (self._text(at, column) for column in ("in_dims", "in_types"))
        work = int(recorded.flops[at]), int(recorded.moved[at])
        rest = [self._text(at, column) for column in ("in_strides", "in_values")]
        return Operator(recorded.names[at], shapes, types, *self._place(row), at, *work, *rest)

    def _text(self, row: int, column: str) -> str:
        kineto, event = self.recorded.kineto, int(self.recorded.line.event[row])
        return kineto.texts[int(kineto.text_columns[column][event])] if event >= 0 else ""

    def _place(self, row: int) -> tuple[str, int, int]:
        found = self.recorded.attribution
        module = found.modules[int(found.module[row])] if found.module[row] >= 0 else ""
        return module, int(found.layer[row]), int(found.phase[row])
