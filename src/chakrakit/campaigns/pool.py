"""A pool of nodes of which some are slow and nobody knows which: sweeps, monitors and lists of exclusions.

A synchronous job is as fast as its slowest node. A sweep measures nodes before they are let in; a monitor
compares the nodes of a running job with one another; whoever is found slow goes on the list and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.errors import ConfigError


@dataclass(frozen=True)
class PoolPlan:
    """Nodes of a pool, how many of them are slow and by how much, and how measurements scatter.

    `slow_share` are slow from the start; others become slow at `onsets_per_day` each. How much longer a slow
    node takes is drawn between `least` and `most`. `noise` is the standard deviation of one measurement.
    """

    nodes: int
    slow_share: float = 0.0
    onsets_per_day: float = 0.0
    least: float = 1.03
    most: float = 1.5
    noise: float = 0.01

    def __post_init__(self) -> None:
        if self.nodes < 1 or not 0 <= self.slow_share <= 1 or not 1 <= self.least <= self.most:
            raise ConfigError(
                f"a pool of {self.nodes} nodes, a share of {self.slow_share} slow by {self.least} to "
                f"{self.most}: give 1 node or more, a share from 0 to 1, and factors from 1 upwards"
            )


@dataclass(frozen=True)
class Guarding:
    """What is done about slow nodes. A limit is a node's time over its peers'; 0 leaves the check out."""

    sweep_limit: float = 0.0
    sweep_seconds: float = 600.0
    monitor_limit: float = 0.0
    monitor_seconds: float = 900.0
    """How long the monitor watches before it judges."""
    samples: int = 16
    """Measurements that a judgement is the mean of."""
    restart_seconds: float = 600.0


@dataclass
class Pool:
    """The true state of every node, and the list of those that are not used any more."""

    plan: PoolPlan
    rng: np.random.Generator
    factor: F64 = field(init=False)
    excluded: Mask = field(init=False)

    def __post_init__(self) -> None:
        slow = self.rng.random(self.plan.nodes) < self.plan.slow_share
        self.factor = np.where(slow, self._drawn(), 1.0)
        self.excluded = np.zeros(self.plan.nodes, np.bool_)

    def _drawn(self) -> F64:
        return self.rng.uniform(self.plan.least, self.plan.most, self.plan.nodes)

    def age(self, seconds: float) -> None:
        """Some of the healthy nodes become slow."""
        chance = 1 - np.exp(-self.plan.onsets_per_day * seconds / 86_400)
        turned = (self.factor == 1.0) & (self.rng.random(self.plan.nodes) < chance)
        self.factor = np.where(turned, self._drawn(), self.factor)

    def measured(self, nodes: F64, samples: int) -> F64:
        """What measurements of some nodes say, over their median."""
        scatter = self.plan.noise / np.sqrt(samples)
        seen = self.factor[nodes] * np.exp(scatter * self.rng.standard_normal(len(nodes)))
        return np.asarray(seen / np.median(seen))

    def chosen(self, count: int, guarding: Guarding) -> tuple[F64, float]:
        """Nodes for a job, and the seconds that letting them in took."""
        usable = self.rng.permutation(np.flatnonzero(~self.excluded))
        took = 0.0
        if guarding.sweep_limit:
            took = guarding.sweep_seconds
            slow = self.measured(usable, guarding.samples) > guarding.sweep_limit
            self.excluded[usable[slow]] = True
            usable = usable[~slow]
        if len(usable) < count:  # better a slow node than none
            back = np.flatnonzero(self.excluded)[: count - len(usable)]
            usable = np.r_[usable, back]
        return usable[:count], took


@dataclass(frozen=True)
class PoolRun:
    """One job on nodes of the pool: the mean slowness of its steps, and its useful share of the time."""

    slowness: float
    useful: float
    replaced: int


def pool_run(
    pool: Pool, nodes: int, seconds: float, guarding: Guarding, slices: int = 24
) -> PoolRun:
    """A job of some length; the monitor judges after every slice, and what it names is replaced."""
    if nodes > pool.plan.nodes:
        raise ConfigError(f"a job of {nodes} nodes does not fit a pool of {pool.plan.nodes}")
    mine, spent = pool.chosen(nodes, guarding)
    slowness, replaced = [], 0
    for _ in range(slices):
        slowness.append(float(pool.factor[mine].max()))
        pool.age(seconds / slices)
        if guarding.monitor_limit:
            slow = pool.measured(mine, guarding.samples) > guarding.monitor_limit
            if slow.any() and (~pool.excluded).sum() > nodes:
                pool.excluded[mine[slow]] = True
                replaced += int(slow.sum())
                mine, more = pool.chosen(nodes, guarding)
                spent += more + guarding.restart_seconds
    done = float(np.mean([1 / s for s in slowness])) * seconds
    return PoolRun(float(np.mean(slowness)), done / (seconds + spent), replaced)
