"""A router that keeps conversations together: a request goes where most of its prompt is cached.

Ties, and engines that are much busier than the least busy one, are left alone. Run it: it prints cache hits
and latency of three routers for the same conversations.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.serving import EngineView, RequestView, serve

STREAM = "poisson{rate=6,n=400,turns=8,think=3,prompt=300,output=80,seed=5}"
MOST_AHEAD = 8
"""Requests that an engine may have more than the least busy one."""


class StickyRouter:
    """The engine with the longest cached prefix among those that are not too busy."""

    def route(self, request: RequestView, engines: Sequence[EngineView]) -> int:
        """The number of the engine."""
        least = min(e.waiting + e.running for e in engines)
        fit = [e for e in engines if e.waiting + e.running <= least + MOST_AHEAD]
        best = max(
            fit, key=lambda e: (e.matched(request.number), -e.waiting - e.running, -e.number)
        )
        return best.number


def main() -> None:
    """Hits and latency by router."""
    base = ("llama-3.1-8b", "dgx-h100", STREAM, "vllm")
    for name, settings in (
        ("in turn", {"router": "turn"}),
        ("least busy", {"router": "least"}),
        ("sticky", {"policy": StickyRouter()}),
    ):
        done = serve(*base, replicas=4, **settings)
        print(
            f"{name}: {done.cache_hit_rate:.0%} cached, first token after {done.ttft_ms.mean:.1f} ms"
        )


if __name__ == "__main__":
    main()
