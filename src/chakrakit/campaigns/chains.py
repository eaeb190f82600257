"""Chains of retries: a job that fails starts again, by hand or by itself, on other nodes or the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RetryPlan:
    """How a job that failed is started again.

    A session needs `nodes` of `pool`; `bad` of them make it fail with `bad_chance`, any other with
    `other_chance`, within the hours that count as success. With `exclude_chance` the node that failed is
    found and not used again.
    """

    nodes: int
    pool: int
    bad: int
    bad_chance: float
    other_chance: float
    attempts: int
    minutes: float
    exclude_chance: float


@dataclass(frozen=True)
class Chain:
    """What came of one chain: whether a session lasted, attempts, hours, and which nodes were excluded."""

    success: bool
    attempts: int
    hours: float
    excluded: tuple[int, ...]


def retry_chain(plan: RetryPlan, rng: np.random.Generator) -> Chain:
    """Attempts until a session lasts or there are no more; the first `bad` nodes are the bad ones."""
    excluded: list[int] = []
    for attempt in range(1, plan.attempts + 1):
        usable = np.setdiff1d(np.arange(plan.pool), excluded)
        mine = rng.permutation(usable)[: plan.nodes]
        chance = np.where(mine < plan.bad, plan.bad_chance, plan.other_chance)
        failed = mine[rng.random(len(mine)) < chance]
        if not len(failed):
            return Chain(True, attempt, attempt * plan.minutes / 60, tuple(excluded))
        if rng.random() < plan.exclude_chance and plan.pool - len(excluded) > plan.nodes:
            excluded.append(int(failed[0]))
    return Chain(False, plan.attempts, plan.attempts * plan.minutes / 60, tuple(excluded))
