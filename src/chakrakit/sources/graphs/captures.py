"""Graphs being captured: the launches that made a CUDA or HIP graph, with the operators they stand in.

A capture file holds launches without kernels. Their order is the order in which the graph's nodes were
made, which is how a replay's kernels find their operators again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.match import nearest
from chakrakit.sources.pytorch.read import Kind

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


def find_captures(linked: Rank, work: tuple[I64, I64]) -> list[Capture]:
    """The captures of a rank that was linked, in order; `work` are the FLOPs and bytes of its rows."""
    if linked.kineto is None:
        return []
    line, names = linked.line, linked.names
    is_call = (line.kind == Kind.CALL) & line.is_host
    begins = np.flatnonzero(is_call & names.matching(BEGIN))
    ends = np.flatnonzero(is_call & names.matching(END))
    launches = np.flatnonzero(is_call & names.matching(LAUNCH) & ~_ran(linked))
    launches = _outermost(linked, launches)
    describe = _Describer(linked, work)
    out = []
    for begin in begins.tolist():
        after = ends[line.start[ends] > line.end[begin]]
        until = int(line.start[after[0]]) if len(after) else int(line.end.max())
        when = line.start[launches]
        mine = launches[(when >= line.end[begin]) & (when <= until)]
        if len(mine):
            out.append(describe.capture(begin, mine))
    return out


def _ran(linked: Rank) -> NDArray[np.bool_]:
    """Calls whose work is in the file: they were not part of a capture."""
    ran = np.zeros(len(linked.line), np.bool_)
    ran[linked.device.call[linked.device.call >= 0]] = True
    return ran


def _outermost(linked: Rank, launches: I64) -> I64:
    """A runtime's launch may hold the driver's: it counts once."""
    inside = np.zeros(len(linked.line), np.bool_)
    inside[launches] = True
    parent = linked.line.parent[launches]
    return launches[(parent < 0) | ~inside[np.maximum(parent, 0)]]


class _Describer:
    """Says of launches what operator, shapes and module they belong to."""

    def __init__(self, linked: Rank, work: tuple[I64, I64]) -> None:
        assert linked.kineto is not None
        self.linked, self.kineto, self.work = linked, linked.kineto, work
        line, names = linked.line, linked.names
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
        match = _LABEL.match(self.linked.names[row]) if row >= 0 else None
        return (int(match[1]), match[2]) if match else (-1, "")

    def _kind(self, row: int) -> Kind:
        name = self.linked.names[row]
        return Kind.MEMCPY if "emcpy" in name else Kind.MEMSET if "emset" in name else Kind.KERNEL

    def _operator(self, row: int) -> Operator:
        linked, at = self.linked, int(self.operator[row])
        if at < 0:
            return Operator("", "", "", *self._place(row), -1, 0, 0)
        event = int(linked.line.event[at])
        texts, columns = self.kineto.texts, self.kineto.text_columns
        shapes, types = (
            texts[int(columns[c][event])] if event >= 0 else "" for c in ("in_dims", "in_types")
        )
        return Operator(
            linked.names[at],
            shapes,
            types,
            *self._place(row),
            at,
            int(self.work[0][at]),
            int(self.work[1][at]),
        )

    def _place(self, row: int) -> tuple[str, int, int]:
        found = self.linked.attribution
        module = found.modules[int(found.module[row])] if found.module[row] >= 0 else ""
        return module, int(found.layer[row]), int(found.phase[row])
