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
        self._chance = Random(f"{seed}/pool")

    def admitted(self) -> float:
        """How much longer a node takes that is let in; the sweep excludes while the pool has others."""
        while True:
            slow = self._chance.random() < self.pool.slow_share
            factor = self.slowness() if slow else 1.0
            if not self._measures_slow(factor, self.guarding.sweep_limit) or not self.left:
                return factor
            self.left -= 1
            self.excluded += 1

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
        limit = self.guarding.monitor_limit
        if not limit:
            return math.inf
        away = (math.log(limit) - math.log(factor)) / self._scatter
        chance = 0.5 * math.erfc(away / math.sqrt(2))
        if chance < _NEVER_NAMED:
            return math.inf
        judgements = 1 + int(
            math.log(1 - self._chance.random()) / math.log1p(-min(chance, 1 - 1e-12))
        )
        return judgements * self.guarding.monitor_seconds

    @property
    def _scatter(self) -> float:
        """Standard deviation of a judgement, which is the mean of several measurements."""
        return max(self.pool.noise / math.sqrt(self.guarding.samples), 1e-12)

    def _measures_slow(self, factor: float, limit: float) -> bool:
        if not limit:
            return False
        return factor * math.exp(self._chance.gauss(0, self._scatter)) > limit
