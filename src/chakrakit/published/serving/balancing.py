"""Routers to ranks that step together, and how uneven their steps are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView, ServedRun


def tokens(engine: EngineView) -> int:
    """What a rank has to keep: of requests that have started, and of those in its queue."""
    return engine.tokens_held + engine.tokens_promised


class Fewest:
    """The rank with the fewest requests or, `by_tokens`, the fewest tokens.

    With `hold` requests, a rank is full; while all are, requests wait for all of them together.
    """

    in_order = True

    def __init__(self, by_tokens: bool, hold: int) -> None:
        self.by_tokens, self.hold = by_tokens, hold or 10**9

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the rank, or None to wait."""
        free = [e for e in engines if e.waiting + e.running < self.hold]
        return min(free, key=lambda e: (self.load(e), e.number)).number if free else None

    def load(self, engine: EngineView) -> int:
        """What is compared."""
        return tokens(engine) if self.by_tokens else engine.waiting + engine.running


class BalanceRoute:
    """Requests wait together until the first fits below the fullest rank, where it costs the step nothing.

    With a horizon, loads are those after so many steps: of requests that will have ended by then, as a
    classifier says that is `wrong` for a share of them, nothing is left, and the others have grown. A request
    that fits nowhere goes to the rank with the least, once that has room.
    """

    in_order, knows_output = True, True

    def __init__(self, room: int, horizon: int, wrong: float, below: bool, seed: int) -> None:
        self.room, self.horizon, self.wrong, self.below = room, horizon, wrong, below
        self.mistaken = np.random.default_rng([seed, 56]).random(1 << 16) < wrong

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the rank, or None to wait."""
        free = [e for e in engines if e.waiting + e.running < self.room]
        if not free:
            return None
        loads = {e.number: self.ahead(e) for e in engines}
        number = min((e.number for e in free), key=lambda n: (loads[n], n))
        fits = loads[number] + request.prompt <= max(loads.values())
        return number if fits or not self.below or loads[number] == min(loads.values()) else None

    def ahead(self, engine: EngineView) -> int:
        """Tokens of a rank after the horizon."""
        if not self.horizon:
            return tokens(engine)
        stays = [r for r in engine.running_requests if self.says_stays(r)]
        return engine.tokens_promised + sum(r.computed + self.horizon for r in stays)

    def says_stays(self, request: RequestView) -> bool:
        """Whether a request will still be there, as the classifier says."""
        stays = (request.left or 0) > self.horizon
        return stays != bool(self.mistaken[request.number % len(self.mistaken)])


def unevenness(done: ServedRun, ranks: int) -> tuple[float, float]:
    """The largest over the mean context of the ranks in a step, its mean and 99th percentile.

    Over the steps until the last request has started: a router decides nothing of those that follow.
    """
    steps, last = done.outcome.steps, done.outcome.requests["scheduled"].max()
    begun = steps["start"] <= last
    _, which = np.unique(steps["start"][begun], return_inverse=True)
    context = steps["context"][begun].astype(float)
    largest, total = np.zeros(which.max() + 1), np.bincount(which, context)
    np.maximum.at(largest, which, context)
    ratio = largest[total > 0] / (total[total > 0] / ranks)
    return float(ratio.mean()), float(np.percentile(ratio, 99))
