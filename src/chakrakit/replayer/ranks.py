"""Who replays whom: fewer ranks than were recorded, as many, or more.

Rank r of the replay does what the recorded rank number r does, counted among those recorded; beyond
the last it begins again with the first, with groups of its own. A group keeps the members that are
here. Where that makes it smaller, either each member's part stays as recorded (`keep`: an all-gather's
shard, an all-to-all's share a peer), or the whole does (`scale`: parts grow as the members get fewer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chakrakit.errors import ConfigError, TraceError, listed
from chakrakit.replayer.plan import ProcessGroup
from chakrakit.trace.communication import Groups

WORLD_NAME = "0"


@dataclass(frozen=True)
class ReplayWorld:
    """The ranks of a replay: `recorded` are those of the trace, `size` is how many there are now."""

    recorded: tuple[int, ...]
    size: int
    groups: Groups

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"--nproc {self.size}; it should be 1 or more")
        if not self.recorded:
            raise TraceError("the trace has no rank")

    def recorded_rank(self, rank: int) -> int:
        """Whose part a rank plays."""
        return self.recorded[rank % len(self.recorded)]

    def here(self, members: Sequence[int], rank: int) -> list[int]:
        """The members of a recorded group among the ranks of the replay, for the copy `rank` is in."""
        first = rank - rank % len(self.recorded)
        places = {r: first + i for i, r in enumerate(self.recorded)}
        return [places[m] for m in members if places.get(m, self.size) < self.size]

    def recorded_members(self, name: str, rank: int, place: str) -> Sequence[int]:
        """The recorded members of a group that a recorded rank uses."""
        found = self.groups.ranks_of(name, range(max(self.recorded) + 1))
        if found is None:
            known = ", ".join(sorted(self.groups)[:8]) or "none"
            raise TraceError(f"{place}: no group {name!r}; there are {known}")
        if rank not in found:
            raise TraceError(f"{place}: rank {rank} is not in group {name!r} ({listed(found)})")
        return found

    def all_groups(self) -> list[ProcessGroup]:
        """Every group of the replay, in an order that is the same on all ranks."""
        names = sorted(set(self.groups) | {WORLD_NAME}, key=lambda n: (n != WORLD_NAME, n))
        out = []
        for first in range(0, self.size, len(self.recorded)):
            for name in names:
                members = self.groups.ranks_of(name, range(max(self.recorded) + 1)) or ()
                found = self.here(members, first)
                if found:
                    out.append(ProcessGroup(name, found))
        return out

    def renamed(self, rank: int) -> dict[str, str]:
        """A recorded group's name → its name in the copy a rank is in."""
        copy = rank // len(self.recorded)
        return {n: _label(n, copy) for n in self.groups} if copy else {}

    def named_groups(self) -> Groups:
        """The groups of all copies, under names of their own."""
        found = {}
        for first in range(0, self.size, len(self.recorded)):
            for name, members in self.groups.items():
                here = self.here(members, first)
                if here:
                    found[_label(name, first // len(self.recorded))] = here
        return Groups(found)


def _label(name: str, copy: int) -> str:
    """The groups of the first copy keep their names."""
    return f"{name}.{copy}" if copy else name
