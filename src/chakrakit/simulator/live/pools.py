"""Pools: named resources of some places, a line in front of them, and what is resident at each place.

A policy may decide instead of the pool's discipline; it is any object with `pick`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.simulator.live.actors import Actor

Discipline = Literal["fifo", "priority", "deadline", "fair"]
"""Who is next: who came first, has the highest priority, the earliest deadline; or all share the places."""


class Task(NamedTuple):
    """What waits for a place of a pool. `number` is its place in the line."""

    number: int
    actor: Actor
    about: Any
    item: Any
    ns: float
    """0 where it depends on the place."""
    key: float
    since_ns: float


class Place:
    """A place of a pool; `state` is for whatever policies and functions of places remember there."""

    def __init__(self, world: core.LiveWorld, pool: int, number: int) -> None:
        self._world, self._pool = world, pool
        self.number = number
        self.state: dict[Any, Any] = {}

    @property
    def resident(self) -> list[Any]:
        """The items that are there, the one that was used last at the end."""
        return self._world.resident(self._pool, self.number)


class PlacementPolicy(Protocol):
    """Picks a task and a place."""

    def pick(
        self, tasks: Sequence[Task], places: Sequence[Place], now_ns: float
    ) -> tuple[Task, Place] | None:
        """One of the tasks that wait and one of the places that are free, or None to wait.

        Called while tasks wait and places are free, until it gives None or nothing is left.
        """
        ...


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool of a world."""

    number: int
    name: str
    width: int
    discipline: Discipline
    places: list[Place] = field(repr=False)
    policy: PlacementPolicy | None = None

    def pick(self, waiting: list[Any], free: list[int], now_ns: float) -> tuple[int, int] | None:
        """The policy's choice, as numbers; an error where it is none of what it was offered."""
        assert self.policy is not None
        tasks = [
            Task(i, actor, about, item, work / 1000, key, since / 1000)
            for i, (actor, about, item, work, key, since) in enumerate(waiting)
        ]
        chosen = self.policy.pick(tasks, [self.places[i] for i in free], now_ns)
        if chosen is None:
            return None
        task, place = _pair(chosen, self.name)
        if place.number not in free or not 0 <= task.number < len(tasks):
            raise ConfigError(
                f"pool {self.name!r}: the policy picked {task!r} and place {place.number}; give one of the "
                f"tasks it was offered, and one of the free places {free}"
            )
        return task.number, place.number


def _pair(chosen: Any, pool: str) -> tuple[Task, Place]:
    if isinstance(chosen, tuple) and len(chosen) == 2:
        task, place = chosen
        if isinstance(task, Task) and isinstance(place, Place):
            return task, place
    raise ConfigError(
        f"pool {pool!r}: the policy picked {chosen!r}; give a pair of a task and a place it was offered, "
        "or None"
    )


DISCIPLINES: tuple[str, ...] = get_args(Discipline)
