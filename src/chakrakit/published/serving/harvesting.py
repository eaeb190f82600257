"""Rollouts next to requests of users: where each may go, and when rollouts have to leave."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published.serving.rollouts import ROLLOUT
from chakrakit.serving import EngineView, RequestView

OWN, SERVING, SPARE = 2, 4, 2
"""Engines for rollouts, for users, and those that an elastic pool may start."""
START_UP_S = 30.0
"""Seconds to start an engine: a container, weights and graphs; assumed."""


def least(engines: Sequence[EngineView]) -> EngineView:
    """The engine with the fewest requests."""
    return min(engines, key=lambda e: (e.waiting + e.running, e.number))


class FixedPool:
    """Rollouts have engines of their own, and users the others; `knob` rollouts fill an engine."""

    def __init__(self, knob: float) -> None:
        self.knob = knob

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the engine, or None to wait."""
        users = [e for e in engines if OWN <= e.number < OWN + SERVING]
        if request.priority != ROLLOUT:
            return least(users).number
        return self.rollout(request, [e for e in engines if e not in users], users)

    def rollout(
        self, request: RequestView, more: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """The engine of a rollout: the one with the most of what was said before, unless it is full."""
        own = [e for e in more if e.number < OWN and e.waiting + e.running < self.knob]
        return known(request, own).number if own else None


def known(request: RequestView, engines: Sequence[EngineView]) -> EngineView:
    """The engine that has the most of a prompt; of equals the one with the fewest requests."""
    return max(
        engines, key=lambda e: (e.matched(request.number), -e.waiting - e.running, -e.number)
    )


class ElasticPool(FixedPool):
    """More engines are started while those for rollouts have more than `knob` requests each."""

    interval_s, start_up_s = 2.0, START_UP_S

    def rollout(
        self, request: RequestView, more: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """Any engine for rollouts."""
        return least(more).number

    def scale(self, engines: Sequence[EngineView], now_s: float) -> list[int]:
        """The engines that are on."""
        pool = [e for e in engines if not OWN <= e.number < OWN + SERVING]
        busy = sum(e.waiting + e.running for e in pool) > self.knob * OWN
        return list(range(OWN + SERVING + (SPARE if now_s > 0 and busy else 0)))


class Unsafe(FixedPool):
    """Rollouts go wherever there are the fewest requests."""

    def rollout(
        self, request: RequestView, more: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """Any engine."""
        return least([*more[:OWN], *users]).number


class Cooperative(FixedPool):
    """Rollouts begin on engines of their own, and go on where users leave time for them in a step.

    A step may take `knob` of what users wait for a token. Where users' requests wait for an engine, its
    rollouts move back. Caches move with them.
    """

    def __init__(self, knob: float, token_s: float) -> None:
        super().__init__(1e6)
        self.step_s = knob * token_s

    def migrate(
        self, requests: Sequence[RequestView], engine: EngineView, engines: Sequence[EngineView]
    ) -> list[tuple[int, int]]:
        """Rollouts that leave: one at a time to engines of users, all of them from where users wait."""
        rollouts = [r for r in requests if r.priority == ROLLOUT and r.generated]
        if not rollouts:
            return []
        if engine.number < OWN:
            idle = least(engines[OWN : OWN + SERVING])
            helps = idle.running + 2 < engine.running + engine.waiting
            goes = helps and not idle.waiting and self.has_time(idle, rollouts[0])
            return [(rollouts[0].number, idle.number)] if goes else []
        if all(r.priority == ROLLOUT for r in engine.waiting_requests):
            return []
        return [(r.number, i % OWN) for i, r in enumerate(rollouts)]

    def has_time(self, engine: EngineView, request: RequestView) -> bool:
        """Whether a step with this rollout, and as many more users, stays below the limit.

        Half of the cache stays free for users.
        """
        if engine.free_blocks < engine.total_blocks // 2:
            return False
        rollouts = sum(r.priority == ROLLOUT for r in engine.running_requests)
        tokens = 2 * (engine.running - rollouts) + rollouts + 1
        context = engine.tokens_held + engine.tokens_promised + request.computed
        return engine.step_seconds(tokens, context) <= self.step_s
