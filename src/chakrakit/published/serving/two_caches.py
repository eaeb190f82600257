"""A recommender that keeps embeddings and users' histories in one memory, and who divides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.serving import CachePair, Service
from chakrakit.serving.requests import RequestStream, stream_of

MEMORY = 10e9
"""Bytes for both caches."""
PAGE, HISTORY = 1.25e6, 40e6
"""Bytes of a page of embeddings and of a user's keys and values."""
PAGE_S, HISTORY_S, STEP_S = PAGE / 25e9, 8e-3, 2e-3
"""Seconds for a page over PCIe 4.0 at 25 GB/s; to compute a history of 2,000 tokens; of any request."""
NEEDED = 200
"""Pages that a request needs."""


@dataclass(frozen=True)
class DemandPhase:
    """Who asks for what: users that take turns, and pages of which low numbers are more popular."""

    users: int
    pages: int
    share: float
    """The part of the memory that embeddings should have in it, as a sweep of fixed parts finds."""


RETURNING = DemandPhase(users=80, pages=8000, share=0.65)
WIDE = DemandPhase(users=400, pages=600, share=0.1)
REGIMES: Mapping[str, tuple[DemandPhase, ...]] = {
    "steady": (RETURNING,),
    "trend": tuple(
        DemandPhase(80 + 64 * i, round(8000 * 0.6**i), max(0.1, 0.65 - 0.11 * i)) for i in range(6)
    ),
    "bursts": (RETURNING, WIDE, RETURNING, WIDE),
}


@dataclass(frozen=True)
class Load:
    """Requests with what each needs, and the phase that it is in."""

    stream: RequestStream
    user: I64
    pages: I64
    phase: I64


def load(regime: str, rate: float, count: int, seed: int) -> Load:
    """Requests of all phases of a regime, equally many in each."""
    rng = np.random.default_rng([seed, 70])
    phases = REGIMES[regime]
    phase = np.arange(count) * len(phases) // count
    users = np.array([p.users for p in phases])[phase]
    pages = np.array([p.pages for p in phases])[phase]
    drawn = np.floor(pages[:, None] * rng.random((count, NEEDED)) ** 2).astype(np.int64)
    at = np.cumsum(rng.exponential(1 / rate, count))
    ones = np.ones(count)
    stream = stream_of(at, ones, ones, adapter=np.arange(count))
    return Load(stream, np.floor(rng.random(count) * users).astype(np.int64), drawn, phase)


class ByValue:
    """Moves the border to the cache in which a little more room would save more time.

    What it would save is counted by near misses. The border moves by at most `step`, and less where both are
    worth nearly the same.
    """

    def __init__(self, step: float, damping: float) -> None:
        self.step, self.damping = step, damping

    def __call__(self, pair: CachePair) -> float:
        """The share of embeddings."""
        worth = [c.near_misses * s for c, s in zip(pair.caches, (PAGE_S, HISTORY_S), strict=True)]
        if not sum(worth):
            return pair.share
        move = (worth[0] - worth[1]) / sum(worth) / self.damping
        return pair.share + self.step * max(-1.0, min(1.0, move))


class HillClimb:
    """Goes on in the direction in which the time of misses fell, and turns around where it rose."""

    def __init__(self, step: float) -> None:
        self.step, self.last = step, np.inf

    def __call__(self, pair: CachePair) -> float:
        """The share of embeddings."""
        seconds = sum(c.misses * s for c, s in zip(pair.caches, (PAGE_S, HISTORY_S), strict=True))
        self.step *= -1 if seconds > self.last else 1
        self.last = seconds
        return min(0.95, max(0.05, pair.share + self.step))


def recommender(pair: CachePair, requests: Load, shares: Sequence[float]) -> Service:
    """One device; with `shares`, the border is where they say as soon as a phase begins."""

    def seconds(_items: int, kinds: Mapping[int, int]) -> float:
        total = STEP_S
        for number in kinds:
            if shares and shares[requests.phase[number]] != pair.share:
                pair.divide(shares[requests.phase[number]])
            missed = pair.request(requests.pages[number].tolist(), [int(requests.user[number])])
            total += missed[0] * PAGE_S + missed[1] * HISTORY_S + missed[2] / 25e9
        return total

    return Service(seconds, max_items=4, name="recommender")
