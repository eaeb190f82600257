"""Actors: who runs a program, on which rank of the machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
    """A program's own view of itself: its number, name and rank, the time, and random numbers of its own."""

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

    def __repr__(self) -> str:
        return f"Actor({self.number}, {self.name!r}, rank {self.rank})"


class Group:
    """Actors that call collectives together, in order."""

    def __init__(self, members: Sequence[Actor]) -> None:
        if len({a.number for a in members}) != len(members) or not members:
            raise ConfigError("a group needs members, each of them once")
        self.members = tuple(members)
        self.core = core.LiveGroup([a.number for a in members])
