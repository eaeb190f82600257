"""A campaign with every choice made: what the engine runs."""

from __future__ import annotations

import math
from functools import cached_property

import msgspec

from chakrakit.campaigns.checkpoints import Cadence, Tier, cadence_of
from chakrakit.campaigns.failures import Duration, FailureProcess, LoggedFailure
from chakrakit.campaigns.pool import Guarding, PoolPlan
from chakrakit.campaigns.recovery import Recovery
from chakrakit.campaigns.spot import SpotMarket


class CampaignPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything in seconds, steps and nodes."""

    step_seconds: float
    """Of the whole, healthy job."""
    steps: int | None
    """What the job has to do; None where it runs for a given time."""
    horizon: float = math.inf
    """When it is stopped, done or not."""
    nodes: int
    spares: int
    repair: Duration
    """From a node's failure until it is a spare again."""
    every: int
    tiers: tuple[Tier, ...]
    processes: tuple[FailureProcess, ...] = ()
    logged: tuple[LoggedFailure, ...] = ()
    recovery: Recovery
    replica_nodes: int = 1
    """Nodes that come and go together when the job shrinks and grows."""
    steps_by_nodes: dict[int, float] = {}
    """Seconds of a step with fewer nodes."""
    pool: PoolPlan | None = None
    """Where nodes are slow without anybody knowing; `guarding` is what is done about it."""
    guarding: Guarding = Guarding()
    market: SpotMarket | None = None
    """Where nodes are rented at a price that moves."""

    @cached_property
    def cadence(self) -> Cadence:
        """The clock of steps and checkpoints."""
        return cadence_of(self.every, self.tiers)

    def step_with(self, nodes: int) -> float:
        """Seconds of a step with so many nodes: as given, else the work of the next larger job spread."""
        if nodes == self.nodes:
            return self.step_seconds
        step_of_nodes = {**self.steps_by_nodes, self.nodes: self.step_seconds}
        larger = min(n for n in step_of_nodes if n >= nodes)
        return step_of_nodes[larger] * larger / nodes
