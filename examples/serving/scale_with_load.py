"""Scaling: as many engines take new requests as the queue calls for, looked at every second.

Run it: it prints how many engines were used and what that did to the first token, for a stream that
comes in bursts.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, serve

STREAM = "bursts{rate=8,size=60,n=600,prompt=1500,output=100,seed=2}"
REQUESTS_PER_ENGINE = 16


class ScaleWithLoad:
    """One engine for every sixteen requests under way; engines that are left finish what they have."""

    interval_s = 1.0

    def __init__(self) -> None:
        self.history: list[int] = []

    def scale(self, engines: Sequence[EngineView], now_s: float) -> int:
        """How many engines take new requests from now on."""
        load = sum(e.waiting + e.running for e in engines)
        self.history.append(min(len(engines), max(1, -(-load // REQUESTS_PER_ENGINE))))
        return self.history[-1]


def main() -> None:
    """All engines all the time, or as many as needed."""
    policy = ScaleWithLoad()
    for name, own in (("always 4", None), ("by load", policy)):
        done = serve(
            "llama-3.1-8b", "dgx-h100", STREAM, "vllm", replicas=4, router="least", policy=own
        )
        print(f"{name}: first token after {done.ttft_ms.mean:.0f} ms on average")
    print(f"engines in use, on average: {sum(policy.history) / len(policy.history):.1f}")


if __name__ == "__main__":
    main()
