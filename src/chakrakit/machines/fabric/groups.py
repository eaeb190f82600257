"""What it takes to set up the groups of a communication library: once, before a group's first collective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chakrakit.arrays import I64


@dataclass(frozen=True)
class GroupCost:
    """Seconds. `create` and `member` (for each member) make a group of ranks that no other group holds.

    Ranks that a larger group holds already are split off it for `shrink`, where the library can do that
    (None where it cannot, and makes a new one); a group of the same ranks as another is used again for
    `reuse`.
    """

    create: float = 0.0
    member: float = 0.0
    shrink: float | None = None
    reuse: float = 0.0

    def seconds(self, groups: Sequence[I64]) -> list[float]:
        """Of each of these groups of ranks; larger ones are there first, as programs make them."""
        took = [0.0] * len(groups)
        holding: dict[int, list[frozenset[int]]] = {}
        for i in sorted(range(len(groups)), key=lambda i: -len(groups[i])):
            members = frozenset(groups[i].tolist())
            larger = [s for s in holding.get(min(members, default=-1), []) if members <= s]
            if members in larger:
                took[i] = self.reuse
            elif larger and self.shrink is not None:
                took[i] = self.shrink
            else:
                took[i] = self.create + self.member * len(members)
            if members not in larger:
                for rank in members:
                    holding.setdefault(rank, []).append(members)
        return took


GROUP_COSTS = {
    # torch.distributed.new_group, medians of 2 to 8 processes of one host with 2 cores, PyTorch 2.13:
    # benchmarks/group_setup.py. Gloo splits nothing: groups of some of its ranks are made anew.
    "gloo": GroupCost(create=9.9e-3, member=0.63e-3),
    # Published "Init timings" of NCCL itself. create: 8 × B200 without the loading of kernels (alloc 0.41,
    # bootstrap 0.57, all-gathers 0.08, topology 1.10, graphs 0.01, connections 0.39 s), NVIDIA/nccl
    # issue 1646. shrink: ncclCommSplit of two ranks, 0.15 s, NVIDIA/nccl issue 1605. What further ranks
    # add is not known.
    "nccl": GroupCost(create=2.56, shrink=0.15),
}
"""By the name that `software.groups` of a machine's file gives."""
