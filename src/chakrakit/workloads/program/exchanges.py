"""Programs of ranks that share attention in blocks: rows in which nothing is exchanged are left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.workloads.description import EXCHANGES
from chakrakit.workloads.program.layout import WorkloadLayout
from chakrakit.workloads.program.tables import TiledColumns


def exchange_roles(layout: WorkloadLayout) -> Mask:
    """For each role, whether it names a peer of attention in blocks."""
    return np.array([role.startswith(EXCHANGES) for role in layout.book.roles.texts])


@dataclass(frozen=True, eq=False)
class FilledRows:
    """The rows of a program that have something to do."""

    kept: Mask
    kernel: Mask
    """Attention itself. A kernel that is left out is one of a chain, whose first is always kept."""

    @classmethod
    def of(cls, layout: WorkloadLayout, columns: TiledColumns) -> FilledRows:
        """Those of a program's columns."""
        shared = exchange_roles(layout)[columns["role"]]
        empty = shared & (columns["comm_size"] == 0) & (columns["flops"] == 0)
        kernel = (columns["core"] > 0) & (columns["op"] == layout.book.ops.number("attention"))
        return cls(~empty, kernel)

    @cached_property
    def place(self) -> I64:
        """The new number of each row: of a kernel that is left out the last kept one's, else -1."""
        new = np.cumsum(self.kept) - 1
        rows = np.arange(len(new))
        last = np.maximum.accumulate(np.where(self.kept & self.kernel, rows, -1))
        chained = self.kernel & (last >= 0)
        return np.where(self.kept, new, np.where(chained, new[last], -1))

    def columns(self, columns: TiledColumns) -> TiledColumns:
        """The columns of kept rows."""
        return columns.some(self.kept)

    def pairs(self, pairs: I64) -> I64:
        """Edges between kept rows."""
        into = self.kept[pairs[:, 1]]
        moved = self.place[pairs[into]]
        between: I64 = moved[(moved[:, 0] >= 0) & (moved[:, 0] != moved[:, 1])]
        return between
