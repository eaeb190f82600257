"""World: what the rules across ranks look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from chakrakit.trace.communication import Binding, Calls, Communication, Groups
from chakrakit.trace.validation.communication import BodyCommunication, GroupCalls


@dataclass
class World:
    """What the rules look at. `ranks_known` is false for a lone file that does not say its rank."""

    bodies: list[BodyCommunication]
    bindings: Mapping[int, Binding]
    groups: Groups
    ranks_known: bool = True
    size: int = field(init=False)

    def __post_init__(self) -> None:
        named = [r for ranks in self.groups.values() for r in ranks]
        self.size = max([*self.bindings, *named], default=-1) + 1
        # Ranks that share a body ask for the same; without a bound all calls would be kept twice.
        self._in_role = lru_cache(256)(self._read_role)

    @cached_property
    def communication(self) -> Communication:
        """Who calls whom."""
        return Communication(
            self.bindings, self.groups, self.size, lambda body: self.bodies[body].calls
        )

    def body(self, rank: int) -> BodyCommunication:
        """What a rank's body communicates."""
        return self.bodies[self.bindings[rank].body]

    def calls(self, rank: int) -> Calls:
        """What a rank communicates, in the names of its body."""
        return self.communication.calls(self.communication.place[rank])

    def in_role(self, rank: int, role: int | None) -> GroupCalls:
        """The collectives of a rank in one of its program's groups."""
        return self._in_role(int(self.communication.program[self.communication.place[rank]]), role)

    def _read_role(self, program: int, role: int | None) -> GroupCalls:
        body = self.bodies[self.communication.body[program]]
        return body.in_role(self.communication.programs[program], role)

    def members(self, group: str) -> Sequence[int] | None:
        """The ranks of a group; None if it is not defined."""
        return self.groups.ranks_of(group, range(self.size))
