"""Cast: who and what is in a world, for those who tell what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from chakrakit.machines.device import PowerLimited
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.live.actors import Actor
from chakrakit.simulator.live.pools import Pool
from chakrakit.simulator.live.scores import Score


@dataclass(frozen=True, eq=False)
class Cast:
    """Actors, pools and the machine of a world."""

    machine: Machine
    work: PowerLimited
    seed: int
    record: bool
    actors: list[Actor]
    pools: list[Pool]
    labels: list[str]
    """Names of the faults that had an effect."""
    played: Score | None = None
    """Traces whose ranks the actors are, in their order."""
