"""What simulated rows are called in errors: their rank and node."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.engine.classes import Classes
from chakrakit.simulator.engine.membership import Membership


class RowNames:
    """What simulated rows are called."""

    def __init__(self, membership: Membership, classes: Classes, offset: I64) -> None:
        self.membership, self.classes, self.offset = membership, classes, offset

    def _class(self, row: int) -> int:
        return int(np.searchsorted(self.offset, row, "right")) - 1

    def rank(self, row: int) -> int:
        """The rank a row is simulated for."""
        return self.membership.ranks[int(self.classes.first[self._class(row)])]

    def node(self, row: int) -> str:
        """`rank 3 at node 17 ('all_reduce')`."""
        c = self._class(row)
        trace = self.membership.programs[self.membership.body(int(self.classes.first[c]))].trace
        node = trace[row - int(self.offset[c])]
        return f"rank {self.rank(row)} at node {node.id} ({node.name!r})"
