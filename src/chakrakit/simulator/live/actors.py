"""Actors: who runs a program, on which rank of the machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import chakrakit.core as core
from chakrakit.errors import ConfigError


class Clock(Protocol):
    """What tells the time: a simulated world, or this machine's clock."""

    @property
    def now_ps(self) -> int:
        """The time, in picoseconds."""
        ...


class Actor:
    """A program's own view of itself: its number, name and rank, the time, and random numbers of its own.

    It equals its name, so that programs that know each other by name find a message's sender.
    """

    def __init__(self, clock: Clock, number: int, name: str, rank: int, seed: int) -> None:
        self._clock, self._seed = clock, seed
        self.number, self.name, self.rank = number, name, rank

    @property
    def now(self) -> float:
        """The time, in nanoseconds."""
        return self._clock.now_ps / 1000

    @property
    def now_ps(self) -> int:
        """The time, in picoseconds."""
        return self._clock.now_ps

    @cached_property
    def random(self) -> random.Random:
        """Random numbers that only this actor draws, from the world's seed and the actor's name."""
        return random.Random(f"{self._seed}/{self.name}")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Actor({self.number}, {self.name!r}, rank {self.rank})"


class ActorGroup:
    """Actors that call collectives together, in order; they may be named before they are there."""

    def __init__(
        self, members: Sequence[Actor | str | int], actor_of: Callable[[Actor | str | int], Actor]
    ) -> None:
        if not members:
            raise ConfigError("a group needs members")
        self._members, self._actor_of = tuple(members), actor_of

    @cached_property
    def members(self) -> tuple[Actor, ...]:
        """The actors, once all of them are there."""
        actors = tuple(self._actor_of(who) for who in self._members)
        twice = [a.name for a in actors if actors.count(a) > 1]
        if twice:
            raise ConfigError(f"{twice[0]!r} is twice in a group; name each member once")
        return actors

    @cached_property
    def core(self) -> core.LiveGroup:
        """The group as the core knows it."""
        return core.LiveGroup([a.number for a in self.members])
