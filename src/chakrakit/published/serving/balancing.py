"""Routers of requests to ranks that step together."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView


class FewestRequests:
    """The rank with the fewest requests; none while all have `most`."""

    in_order = True

    def __init__(self, most: int) -> None:
        self.most, self.turn = most, 0

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the rank, or None to wait."""
        free = [e for e in engines if e.waiting + e.running < self.most]
        return min(free, key=lambda e: self.score(request, e, engines)).number if free else None

    def score(
        self, request: RequestView, engine: EngineView, engines: Sequence[EngineView]
    ) -> float:
        """What speaks against a rank."""
        return engine.waiting + engine.running


class Turns(FewestRequests):
    """One after the other."""

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the rank, or None to wait."""
        free = [e for e in engines if e.waiting + e.running < self.most]
        self.turn += bool(free)
        return free[self.turn % len(free)].number if free else None


class FewestTokens(FewestRequests):
    """The rank with the fewest tokens, held and promised."""

    def score(
        self, request: RequestView, engine: EngineView, engines: Sequence[EngineView]
    ) -> float:
        """What speaks against a rank."""
        return engine.tokens_held + engine.tokens_promised


STEEP = 10.0
"""How much more a token costs that makes the fullest rank fuller."""


class BelowTheFullest(FewestRequests):
    """Filling below the fullest rank is free, best to the brim; above it costs steeply."""

    def score(
        self, request: RequestView, engine: EngineView, engines: Sequence[EngineView]
    ) -> float:
        """What speaks against a rank."""
        fullest = max(e.tokens_held + e.tokens_promised for e in engines)
        after = engine.tokens_held + engine.tokens_promised + request.prompt
        return STEEP * (after - fullest) if after > fullest else fullest - after


ROUTERS = {
    "turns": Turns,
    "fewest requests": FewestRequests,
    "fewest tokens": FewestTokens,
    "below the fullest": BelowTheFullest,
}
