"""Programs without rows that have nothing to do: exchanges of attention in blocks may be empty."""

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
    instead: I64
    """For each row that is left out, the kept one that others wait for instead of it, or -1."""

    @classmethod
    def of(cls, layout: WorkloadLayout, columns: TiledColumns) -> FilledRows:
        """Those of a program's columns."""
        shared = exchange_roles(layout)[columns["role"]]
        empty = shared & (columns["comm_size"] == 0) & (columns["flops"] == 0)
        kernel = (columns["core"] > 0) & (columns["op"] == layout.book.ops.number("attention"))
        kept = np.where(~empty & kernel, np.arange(len(empty)), -1)
        in_chain = np.where(kernel, np.maximum.accumulate(kept), -1)
        return cls(~empty, in_chain)  # of a chain of kernels the first is always kept

    @cached_property
    def place(self) -> I64:
        """The new number of each row, or of the row instead of it; -1 where there is none."""
        new = np.cumsum(self.kept) - 1
        return np.where(self.kept, new, np.where(self.instead >= 0, new[self.instead], -1))

    def columns(self, columns: TiledColumns) -> TiledColumns:
        """The columns of kept rows."""
        return columns.some(self.kept)

    def pairs(self, pairs: I64) -> I64:
        """Edges between kept rows."""
        into = self.kept[pairs[:, 1]]
        moved = self.place[pairs[into]]
        between: I64 = moved[(moved[:, 0] >= 0) & (moved[:, 0] != moved[:, 1])]
        return between
