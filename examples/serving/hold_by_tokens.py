"""Holding: a request waits in the cluster's queue until an engine has few enough tokens, held and promised.

Run it: it prints how uneven the steps of eight ranks are that step together, after bursts of requests, when
every one is routed at once and when they are held.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView, serving_of

STREAM = "bursts{rate=400,size=256,n=512,prompt=lognormal:600:1.2,output=lognormal:60:1,seed=3}"
RUNNING = 24
"""Requests that an engine has before more are held."""


class LeastTokens:
    """The engine with the fewest tokens, held and promised; none while all are full."""

    in_order = True

    def __init__(self, most: int) -> None:
        self.most = most

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the engine, or None to wait."""
        free = [e for e in engines if e.waiting + e.running < self.most]
        least = min(free, key=lambda e: (e.tokens_held + e.tokens_promised, e.number), default=None)
        return None if least is None else least.number


def main() -> None:
    """The mean of the largest over the mean context of a step."""
    for name, most in (("at once", 10**6), ("held", RUNNING)):
        policy = LeastTokens(most)
        serving = serving_of("deepseek-v3-16b", "dgx-h100", STREAM, dp=8, ep=8, policy=policy)
        steps = serving.served(record_steps=True).outcome.steps
        order = np.argsort(steps["start"], kind="stable")
        context = steps["context"][order][: len(order) // 8 * 8].reshape(-1, 8)
        context = context[context.sum(axis=1) > 0]
        uneven = (context.max(axis=1) / context.mean(axis=1)).mean()
        print(f"{name}: the fullest rank has {uneven:.2f} times the mean context")


if __name__ == "__main__":
    main()
