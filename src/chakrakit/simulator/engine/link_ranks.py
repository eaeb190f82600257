"""Which class and weight the traffic of each collective, message and storage operation has on links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.simulator.engine.instances import Instances
from chakrakit.simulator.engine.program import Program

MOST_CLASSES = 64
"""Classes of traffic: Ethernet has 8 priorities, InfiniBand 16 lanes."""


@dataclass(frozen=True, eq=False)
class LinkRanks:
    """By instance: its class (`priority`, higher first) and its weight there; none where all are alike."""

    priority: I64
    weight: I64

    @classmethod
    def none(cls) -> LinkRanks:
        """All traffic is alike."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def columns(self) -> tuple[list[int], list[int]]:
        """Classes and weights, by instance."""
        return self.priority.tolist(), self.weight.tolist()

    def __bool__(self) -> bool:
        return len(self.priority) > 0

    def arrays(self, instances: Instances) -> dict[str, Any]:
        """What the core takes, by job; classes are numbered from the lowest."""
        if not self:
            return {"job_priority": np.zeros(0, np.int32), "job_weight": np.zeros(0, np.int32)}
        classes, number = np.unique(self.priority, return_inverse=True)
        if len(classes) > MOST_CLASSES:
            raise TraceError(
                f"there are {len(classes)} different values of link_priority; give at most {MOST_CLASSES}"
            )
        copies = [len(jobs) for jobs in instances.jobs]
        return {
            "job_priority": np.repeat(number.reshape(-1), copies).astype(np.int32),
            "job_weight": np.repeat(self.weight, copies).astype(np.int32),
        }


def link_ranks(programs: list[Program], instances: Instances) -> LinkRanks:
    """As the rows of all simulated classes say; who says nothing leaves it to the other members."""
    if not any(p.trace.has(n).any() for p in programs for n in ("link_priority", "link_weight")):
        return LinkRanks.none()
    priority = _agreed(programs, instances, "link_priority", 0)
    weight = _agreed(programs, instances, "link_weight", 1)
    return LinkRanks(priority, weight)


def _agreed(programs: list[Program], instances: Instances, name: str, default: int) -> I64:
    """What the members of each instance say."""
    values = np.concatenate([p.trace.column(name, default) for p in programs]).astype(np.int64)
    given = np.concatenate([p.trace.has(name) for p in programs])
    rows = np.flatnonzero(given & (instances.of_row >= 0))
    out = np.full(len(instances.needed), default, np.int64)
    out[instances.of_row[rows]] = values[rows]
    wrong = rows[out[instances.of_row[rows]] != values[rows]]
    if len(wrong):
        instance = int(instances.of_row[wrong[0]])
        kind, group, number = instances.what[instance]
        raise TraceError(
            f"{kind} {number} of group {group or '(all ranks)'}: members give {name} as "
            f"{values[wrong[0]]} and {out[instance]}; all of them must say the same"
        )
    return out
