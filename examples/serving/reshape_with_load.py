"""Reconfiguration: four devices are four engines while there is much to do, and one of degree four while not.

A change costs the weights and caches that devices do not have yet, over the links. Run it: it prints the
time per token and to the first one of both shapes alone and of the change between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineSpec, EngineView, serve

FOUR = EngineSpec(model="qwen3-14b", machine="dgx-h100", count=4, devices=(0, 1, 2, 3))
ONE = EngineSpec(model="qwen3-14b", machine="dgx-h100", tp=4, devices=(0,))
STREAM = "regimes{rates=2:40:2,every=15,n=660,prompt=1500,output=60,seed=4}"


class ReshapeWithLoad:
    """Engine 4 is the large one; it gives way when the queue grows, and comes back when all is quiet."""

    interval_s = 1.0

    def reconfigure(self, now_s: float, engines: Sequence[EngineView]) -> list[int]:
        """The engines that are on from now."""
        busy = sum(e.waiting + e.running for e in engines)
        large = engines[4].takes_requests or now_s == 0
        if busy > 60 or (busy > 6 and not large):
            return [0, 1, 2, 3]
        return [4]


def main() -> None:
    """Either alone, then both."""
    for name, specs, policy in (
        ("four engines", [FOUR], None),
        ("one of degree four", [ONE], None),
        ("as needed", [FOUR, ONE], ReshapeWithLoad()),
    ):
        done = serve(engines=specs, requests=STREAM, policy=policy)
        print(
            f"{name}: first token {done.ttft_ms.p90:.0f} ms at p90, then {done.tpot_ms.mean:.2f} ms"
        )


if __name__ == "__main__":
    main()
