"""Holding: a request waits in the cluster's queue until it fits below the fullest engine, held and promised.

Run it: it prints how uneven the steps of eight ranks are that step together, after 512 requests came at once,
when each is routed as it comes and when they are held.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.serving import EngineView, RequestView, serving_of

MODEL, ROOM = "deepseek-v3-16b", 32
STREAM = "bursts{rate=400,size=512,n=512,prompt=lognormal:600:1.2,output=lognormal:60:1,seed=3}"


class LeastTokens:
    """The engine with the fewest tokens of those with room; None while it would become the fullest."""

    def __init__(self, room: int) -> None:
        self.room = room

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int | None:
        """The number of the engine, or None to wait; the one with the least of all takes anything."""
        tokens = {e.number: e.tokens_held + e.tokens_promised for e in engines}
        free = [e.number for e in engines if e.waiting + e.running < self.room]
        if not free:
            return None
        least = min(free, key=lambda number: tokens[number])
        fits = tokens[least] + request.prompt <= max(tokens.values())
        return least if fits or tokens[least] == min(tokens.values()) else None


def main() -> None:
    """The mean of the largest over the mean context of a step, until the last request has started."""
    options = f"vllm{{max_num_seqs={ROOM}}}"
    for name, room in (("at once", 10**6), ("held", ROOM)):
        policy = LeastTokens(room)
        serving = serving_of(MODEL, "dgx-h100", STREAM, options, dp=8, ep=8, policy=policy)
        done = serving.served(record_steps=True).outcome
        mine = done.steps["start"] <= done.requests["scheduled"].max()
        context = done.steps["context"][mine][: mine.sum() // 8 * 8].reshape(-1, 8)
        uneven = (context.max(axis=1) / np.maximum(1, context.mean(axis=1))).mean()
        print(f"{name}: the fullest rank has {uneven:.2f} times the mean context")


if __name__ == "__main__":
    main()
