"""Splits: keys that separate ranks and groups which seemed alike until their copies ended at different times.

One rank per class is simulated, but the network carries the traffic of every rank, so each copy of a
collective or message has its own end. Where copies of one class end at different times (another group's
traffic crosses only some of them), the class was too coarse: it is split by those ends and simulated again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.engine.instances import Instances
from chakrakit.simulator.engine.membership import Membership
from chakrakit.trace.communication import Classes


@dataclass(frozen=True)
class Splits:
    """One key per rank and one per group; those with different keys do not share a class."""

    rank: tuple[Hashable, ...]
    group: tuple[Hashable, ...]

    @staticmethod
    def none(membership: Membership) -> Splits:
        """Splits in which all ranks and all groups have the same key."""
        return Splits((0,) * len(membership.ranks), (0,) * len(membership.groups))

    def further(self, classes: Classes, instances: Instances, job_ended: I64) -> Splits | None:
        """These splits refined by the ends of all copies; None where the copies ended together."""
        first = np.r_[0, np.cumsum([len(j) for j in instances.jobs])].astype(np.int64)
        ranks: dict[int, list[I64]] = {}
        groups: dict[int, list[I64]] = {}
        for number in _ended_apart(first, job_ended).tolist():
            ended = job_ended[first[number] : first[number + 1]]
            group = instances.group_class[number]
            if group >= 0:
                groups.setdefault(group, []).append(ended)
            else:
                ranks.setdefault(instances.rank_class[number], []).append(ended)
        if not ranks and not groups:
            return None
        return Splits(
            _split(self.rank, ((classes.ranks_of(c), e) for c, e in ranks.items())),
            _split(self.group, ((classes.groups_of(c), e) for c, e in groups.items())),
        )


def _ended_apart(first: I64, job_ended: I64) -> I64:
    """The instances whose copies did not all end at the same time."""
    used = np.flatnonzero(np.diff(first))
    if not len(used):
        return used
    earliest = np.minimum.reduceat(job_ended, first[used])
    apart: I64 = used[earliest != np.maximum.reduceat(job_ended, first[used])]
    return apart


def _split(
    keys: tuple[Hashable, ...], ends_by_class: Iterable[tuple[I64, list[I64]]]
) -> tuple[Hashable, ...]:
    """The keys, refined where members of a class have different ends in one of its instances."""
    number = np.zeros(len(keys), np.int64)
    for members, ends in ends_by_class:
        _, number[members] = np.unique(np.stack(ends), axis=1, return_inverse=True)
    return tuple(zip(keys, number.tolist(), strict=True))
