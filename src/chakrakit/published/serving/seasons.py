"""A year of load with seasons, what is expected of the hours after it, and scaling by that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from chakrakit.arrays import F64
from chakrakit.serving import EngineView, Service
from chakrakit.serving.requests import RequestStream, stream_of

HOURS, DAYS, QUARTER = 24, 364, 91
"""Hours of a day, days of the year that is known, and of a quarter of it."""
HOUR_S = 10.0
"""Seconds that stand for an hour, so that days can be served in minutes."""
SERVICE_S = 0.4
"""Seconds of a request on an engine."""
ENGINES = 12
Expected = Callable[[Sequence[EngineView], float], float]
"""The requests a second that are expected, by what is there and the time."""


@dataclass(frozen=True)
class Year:
    """Load by the hour: that of the known year, and of the hours after it, as shares of the mean."""

    known: F64
    later: F64
    parts: dict[str, float]


@cache
def year(seasonal: float, noise: float, hours: int, seed: int) -> Year:
    """Daily, weekly and quarterly seasons, a trend, and noise that nobody can foresee."""
    rng = np.random.default_rng([seed, 27])
    hour = np.arange(DAYS * HOURS + hours)
    parts = {"day": 0.5 * seasonal, "week": 0.2 * seasonal, "quarter": 0.1 * seasonal}
    level = 1.0 + 0.1 * seasonal * hour / len(hour)
    for name, period in PERIODS.items():
        level = level + parts[name] * np.sin(2 * np.pi * hour / period + rng.uniform(0, 2 * np.pi))
    load = level * np.exp(noise * rng.standard_normal(len(hour)))
    return Year(load[: DAYS * HOURS], load[DAYS * HOURS :], parts)


PERIODS = {"day": HOURS, "week": 7 * HOURS, "quarter": QUARTER * HOURS}


def decomposed(known: F64, ahead: int) -> tuple[F64, dict[str, float]]:
    """A trend and a wave of each season, fitted to the known hours: what they give next, and the waves."""

    def terms(hour: F64) -> F64:
        turns = [2 * np.pi * hour * len(known) / p for p in PERIODS.values()]
        waves = [f(t) for t in turns for f in (np.sin, np.cos)]
        return np.stack([np.ones(len(hour)), hour, *waves], axis=1)

    hour = np.arange(len(known) + ahead) / len(known)
    past = terms(hour[: len(known)])
    fit = np.linalg.solve(past.T @ past, past.T @ known)
    sizes = {name: math.hypot(*fit[2 + 2 * i : 4 + 2 * i]) for i, name in enumerate(PERIODS)}
    return terms(hour[len(known) :]) @ fit, sizes


def habit(known: F64, ahead: int, days: int) -> F64:
    """The same hours as so many days before."""
    last = known[-days * HOURS :]
    return np.resize(last, ahead)


def requests(later: F64, rate: float, seed: int) -> RequestStream:
    """Requests of the hours that are served, by the load of each hour."""
    rng = np.random.default_rng([seed, 28])
    counts = rng.poisson(np.maximum(later, 0.05) * rate * HOUR_S)
    at = np.concatenate(
        [np.sort(rng.uniform(0, HOUR_S, n)) + h * HOUR_S for h, n in enumerate(counts)]
    )
    return stream_of(at, np.ones(len(at)), np.ones(len(at)))


def service() -> Service:
    """Engines that serve one request after another."""
    return Service(lambda items, kinds: SERVICE_S, max_items=1, engines=ENGINES, name="function")


class Scaling:
    """As many engines as the expected load needs at a target of their use."""

    interval_s = HOUR_S / 2
    start_up_s = HOUR_S

    def __init__(self, expected: Expected, target: float) -> None:
        self.expected, self.target = expected, target

    def scale(self, engines: Sequence[EngineView], now_s: float) -> int:
        """The number of engines that take requests."""
        busy = self.expected(engines, now_s) * SERVICE_S
        return min(ENGINES, max(1, round(busy / self.target)))


def by_forecast(forecast: F64, rate: float) -> Expected:
    """The load when an engine that starts now will be ready, and until then."""

    def expected(_engines: Sequence[EngineView], now_s: float) -> float:
        now, ready = (min(len(forecast) - 1, int((now_s + s) / HOUR_S)) for s in (0.0, HOUR_S))
        return rate * float(max(forecast[now : ready + 1]))

    return expected


def by_what_is_there(engines: Sequence[EngineView], now_s: float) -> float:
    """The load that would keep as many requests under way as there are now."""
    return sum(e.running + e.waiting for e in engines) / SERVICE_S
