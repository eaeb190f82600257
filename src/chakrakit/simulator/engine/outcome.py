"""What came out of a simulation, before anybody makes a result of it."""

from __future__ import annotations

from dataclasses import dataclass

from chakrakit.arrays import F64, I8, I32, I64
from chakrakit.simulator.engine.folding import Splits
from chakrakit.simulator.engine.instances import Instances
from chakrakit.simulator.engine.membership import Membership
from chakrakit.simulator.engine.program import Program
from chakrakit.simulator.engine.stored import StoredOperations
from chakrakit.trace.communication import Classes


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out: arrays over the rows of the simulated classes, in picoseconds."""

    membership: Membership
    classes: Classes
    why: str
    offset: I64
    start: I64
    end: I64
    binding: I32
    reason: I8
    durations: I64
    sources: I8
    """The CostSource of each duration."""
    errors: F64
    """By what share each duration may be off, as far as its source knows."""
    instances: Instances
    began: I64
    ended: I64
    link_bytes: F64
    full_rate: F64
    """By link, bytes/s: the lowest throughput while it held traffic back; below 0 where it never did."""
    full_since: I64
    """By link: since when, in picoseconds."""
    events: int
    device_of: I64
    """The device of each rank, by its place among the ranks."""
    splits: Splits | None = None
    """What told alike ranks and groups apart; None where every rank was simulated."""
    stored: StoredOperations | None = None
    """What storage servers did; None where no rank used one."""

    def program(self, c: int) -> Program:
        """What the ranks of a class run."""
        return self.membership.programs[self.membership.body(int(self.classes.first[c]))]

    def rows(self, c: int) -> slice:
        """Where the rows of a class are in the arrays."""
        return slice(int(self.offset[c]), int(self.offset[c + 1]))

    def devices(self) -> dict[int, int]:
        """Rank → the device it runs on."""
        return dict(zip(self.membership.ranks, self.device_of.tolist(), strict=True))

    @property
    def makespan_ps(self) -> int:
        """The last end."""
        return int(self.end.max(initial=0))
