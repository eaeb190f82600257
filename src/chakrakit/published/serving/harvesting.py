"""Rollouts next to requests of users: where each may go, and when rollouts have to leave."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published.serving.rollouts import ROLLOUT
from chakrakit.serving import EngineView, RequestView

OWN, SERVING, SPARE = 2, 4, 2
"""Engines for rollouts, for users, and those that an elastic pool may start."""
START_UP_S = 30.0
"""Seconds to start an engine: a container, weights and graphs; assumed."""


def rollouts_on(engine: EngineView) -> int:
    """Rollouts that an engine has."""
    there = (*engine.running_requests, *engine.waiting_requests)
    return sum(r.priority == ROLLOUT for r in there)


def least(engines: Sequence[EngineView]) -> EngineView:
    """The engine with the fewest requests."""
    return min(engines, key=lambda e: (e.waiting + e.running, e.number))


class FixedPool:
    """Rollouts have engines of their own, and users the others."""

    def __init__(self, knob: float) -> None:
        self.knob = knob

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the engine, or None to wait."""
        users = [e for e in engines if OWN <= e.number < OWN + SERVING]
        if request.priority != ROLLOUT:
            return least(users).number
        return self.rollout(request, [e for e in engines if e not in users], users)

    def rollout(
        self, request: RequestView, own: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """The engine of a rollout."""
        return least(own).number


class ElasticPool(FixedPool):
    """More engines are started while those for rollouts have more than a number of requests each."""

    interval_s, start_up_s = 2.0, START_UP_S

    def scale(self, engines: Sequence[EngineView], now_s: float) -> list[int]:
        """The engines that are on."""
        busy = sum(e.waiting + e.running for e in engines if e.number < OWN) > self.knob * OWN
        more = SPARE if now_s > 0 and busy else 0
        return list(range(OWN + SERVING + more))


class Unsafe(FixedPool):
    """Rollouts go wherever there are the fewest requests."""

    def rollout(
        self, request: RequestView, own: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """Any engine."""
        return least([*own, *users]).number


class Cooperative(FixedPool):
    """Rollouts use engines of users while a step there has time for them, and leave when it has not.

    A step may take `knob` of what users wait for a token. Where users' requests wait for an engine, its
    rollouts move to those of their own.
    """

    def __init__(self, knob: float, token_s: float, leaves: bool) -> None:
        super().__init__(knob)
        self.step_s, self.leaves = knob * token_s, leaves

    def rollout(
        self, request: RequestView, own: Sequence[EngineView], users: Sequence[EngineView]
    ) -> int | None:
        """The least busy of its own engines and of those of users that have time."""
        slack = [e for e in users if not e.waiting and self.has_time(e, request)]
        return least([*own, *slack]).number

    def has_time(self, engine: EngineView, request: RequestView) -> bool:
        """Whether a step with this rollout, and as many more users, stays below the limit."""
        own = rollouts_on(engine)
        tokens = 2 * (engine.running - own) + own + 1
        context = 2 * (engine.tokens_held + engine.tokens_promised) + request.prompt
        return engine.step_seconds(tokens, context, prompt_tokens=request.prompt) <= self.step_s

    def migrate(
        self, requests: Sequence[RequestView], engine: EngineView, engines: Sequence[EngineView]
    ) -> list[tuple[int, int]]:
        """Rollouts that leave an engine on which users wait."""
        users_wait = any(r.priority != ROLLOUT for r in engine.waiting_requests)
        if not self.leaves or engine.number < OWN or not users_wait:
            return []
        own = [e for e in engines if e.number < OWN]
        leaving = [r.number for r in requests if r.priority == ROLLOUT and r.generated]
        return [(number, own[i % len(own)].number) for i, number in enumerate(leaving)]
