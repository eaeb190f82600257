"""Two caches in one memory: the border between embeddings and histories moves to where misses cost more.

Run it: it prints the mean seconds of a request with a border that stays, and with one that moves.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chakrakit.serving import CachePair, Service, serve
from chakrakit.serving.requests import stream_of

REQUESTS, PAGE_S, HISTORY_S = 1500, 50e-6, 8e-3  # seconds to fetch a page, to compute a history
RNG = np.random.default_rng(1)
PAGES = (6000 * RNG.random((REQUESTS, 100)) ** 2).astype(int)
USERS = RNG.integers(0, 60, REQUESTS)


def by_near_misses(pair: CachePair) -> float:
    """The share of embeddings: more where they would have saved more time than histories."""
    pages, histories = (cache.near_misses for cache in pair.caches)
    return pair.share + (0.05 if pages * PAGE_S > histories * HISTORY_S else -0.05)


def service(pair: CachePair) -> Service:
    """A step takes 2 ms and what its requests miss; the kind of a request is its own number."""

    def seconds(_items: int, requests: Mapping[int, int]) -> float:
        missed = [pair.request(PAGES[r].tolist(), [int(USERS[r])])[:2] for r in requests]
        return 2e-3 + sum(pages * PAGE_S + histories * HISTORY_S for pages, histories in missed)

    return Service(seconds, max_items=4)


def main() -> None:
    """Both ways."""
    arrivals, ones = np.cumsum(RNG.exponential(1 / 60, REQUESTS)), np.ones(REQUESTS)
    stream = stream_of(arrivals, ones, ones, adapter=np.arange(REQUESTS))
    for name, controller in (("stays", None), ("by near misses", by_near_misses)):
        pair = CachePair(10e9, (1.25e6, 40e6), share=0.2, controller=controller, every=25)
        done = serve(service=service(pair), requests=stream)
        print(
            f"{name}: {done.e2e_ms.mean / 1e3:.4f} s, embeddings have {pair.share:.0%} in the end"
        )


if __name__ == "__main__":
    main()
