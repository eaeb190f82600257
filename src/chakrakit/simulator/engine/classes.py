"""Classes of ranks that do the same at the same time, so that one of each is simulated.

Ranks fold when they run the same body with the same durations on the same kind of device, their groups are
of one class in every role, and so are their peers (`Communication.classes`). What the classes leave
open, whether equal groups really take equal time on this machine with these routes, is checked while
simulating: the network carries the traffic of every rank, and copies that end apart split their class
(folding.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from chakrakit.arrays import I64
from chakrakit.results import counted
from chakrakit.simulator.engine.membership import Membership
from chakrakit.trace.communication import Classes, Company


def refine(
    membership: Membership, rank_keys: Sequence[Hashable], group_keys: Sequence[Hashable]
) -> Classes:
    """The coarsest classes in which equal members have equal keys, groups and peers."""
    companies = [Company(g.present, g.role) for g in membership.groups]
    return membership.communication.classes(rank_keys, group_keys, companies)


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


def why_folded(classes: Classes, attempt: int) -> str:
    """In words, why ranks share classes, or none do."""
    if classes.factor == 1:
        return "no two ranks have the same body, durations, device, groups and peers"
    count = f"{len(classes.rank):,} ranks fall into {counted(classes.count, 'class', 'classes')}"
    said = f"{count} of the same body, durations, device, groups and peers"
    again = f"; split {attempt} times where equal groups ended apart" if attempt else ""
    return f"{said}; all copies of every collective ended together{again}"
