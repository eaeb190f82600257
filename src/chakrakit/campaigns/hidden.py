"""Nodes of a pool that are slow without anybody knowing, as one history of a job meets them.

A node that is let in may be slow; a sweep before that keeps out those that measure slow. Others become slow
while they work; a monitor that measures again and again names them sooner or later.
"""

from __future__ import annotations

import math
from random import Random

from chakrakit.campaigns.pool import Guarding, PoolPlan

_NEVER_NAMED = 1e-9
"""A chance of being named, in one judgement, below which a node is never named: once in a millennium."""


class HiddenNodes:
    """What a history draws of its pool. Nodes that were excluded are not drawn again."""

    def __init__(self, pool: PoolPlan, guarding: Guarding, seed: str, in_use: int) -> None:
        self.pool, self.guarding = pool, guarding
        self.left = pool.nodes - in_use
        """Nodes of the pool that the job neither uses nor keeps as spares."""
        self.excluded = 0
        self.healthy = 0
        """How many of the excluded were as fast as any."""
        self._chance = Random(f"{seed}/pool")
        self._alarms = Random(f"{seed}/alarms")

    def admitted(self) -> float:
        """How much longer a node takes that is let in; the sweep excludes while the pool has others."""
        while True:
            slow = self._chance.random() < self.pool.slow_share
            factor = self.slowness() if slow else 1.0
            if not self._measures_slow(factor, self.guarding.sweep_limit) or not self.left:
                return factor
            self.left -= 1
            self.exclude(factor)

    def exclude(self, factor: float) -> None:
        """Counts a node that is not used any more."""
        self.excluded += 1
        self.healthy += factor == 1.0

    def slowness(self) -> float:
        """How much longer a slow node takes."""
        return self._chance.uniform(self.pool.least, self.pool.most)

    def onset_after(self, nodes: int) -> float:
        """Seconds until one of the nodes becomes slow."""
        rate = self.pool.onsets_per_day * nodes / 86_400
        return self._chance.expovariate(rate) if rate else math.inf

    def place(self, nodes: int) -> int:
        """Which of the nodes it is."""
        return self._chance.randrange(nodes)

    def named_after(self, factor: float) -> float:
        """Seconds until the monitor names a node that is so slow; infinite for never."""
        return self._judged(self._named_chance(factor), self._chance)

    def false_alarm_after(self, nodes: int) -> float:
        """Seconds until the monitor names one of so many nodes that are as fast as any; infinite for never.

        Where a judgement names several, one goes, and the others are judged again.
        """
        one = self._named_chance(1.0)
        return self._judged(-math.expm1(nodes * math.log1p(-one)), self._alarms)

    def _judged(self, chance: float, random: Random) -> float:
        """Seconds until a judgement that comes out with some chance does."""
        if chance < _NEVER_NAMED:
            return math.inf
        judgements = 1 + int(math.log(1 - random.random()) / math.log1p(-min(chance, 1 - 1e-12)))
        return judgements * self.guarding.monitor_seconds

    def accused(self, nodes: int) -> int:
        """Which of the nodes a false alarm names."""
        return self._alarms.randrange(nodes)

    def _named_chance(self, factor: float) -> float:
        """The chance that one judgement of the monitor names a node that takes so much longer."""
        limit = self.guarding.monitor_limit
        if not limit:
            return 0.0
        away = (math.log(limit) - math.log(factor)) / self._scatter
        return min(0.5 * math.erfc(away / math.sqrt(2)), 1 - 1e-12)

    @property
    def _scatter(self) -> float:
        """Standard deviation of a judgement, which is the mean of several measurements."""
        return max(self.pool.noise / math.sqrt(self.guarding.samples), 1e-12)

    def _measures_slow(self, factor: float, limit: float) -> bool:
        if not limit:
            return False
        return factor * math.exp(self._chance.gauss(0, self._scatter)) > limit
