"""Nodes that are rented at a price that moves: while it is above the bid, they are taken away.

Prices are given hour by hour, or drawn: the logarithm of the price goes back to its mean over
`reversion_hours`, with a standard deviation of `sigma` in the long run (an Ornstein–Uhlenbeck process).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from chakrakit.errors import FormatError

HOUR = 3600.0
_AHEAD = 1_000
"""Hours that are looked ahead at once; then one looks again."""
_MOST_ROWS = 1_000_000
"""Of a table of prices: a century of hours."""


class SpotMarket(msgspec.Struct, frozen=True, kw_only=True):
    """What a node-hour costs, and what is bid for it."""

    bid: float
    notice_seconds: float = 0.0
    hourly: tuple[float, ...] = ()
    """Prices of hours, which begin again after the last; without them they are drawn."""
    mean: float = 0.0
    sigma: float = 0.0
    reversion_hours: float = 12.0

    def path(self, seed: str) -> PricePath:
        """The prices of one history."""
        return PricePath(self, seed)


class PricePath:
    """Prices hour by hour, drawn as far as somebody looks."""

    def __init__(self, market: SpotMarket, seed: str) -> None:
        self.market = market
        self._chance = Random(f"{seed}/prices")
        self._prices: list[float] = list(market.hourly)
        self._drawn = self._draws()

    def _draws(self) -> Iterator[float]:
        market = self.market
        keeps = math.exp(-1 / market.reversion_hours)
        state = self._chance.gauss(0, market.sigma)
        while True:
            yield market.mean * math.exp(state - market.sigma**2 / 2)
            state = keeps * state + math.sqrt(1 - keeps**2) * self._chance.gauss(0, market.sigma)

    def price(self, hour: int) -> float:
        """Of a node for one hour."""
        if self.market.hourly:
            return self._prices[hour % len(self._prices)]
        while hour >= len(self._prices):
            self._prices.append(next(self._drawn))
        return self._prices[hour]

    def next_time(self, now: float, taken: bool) -> float:
        """When nodes that are `taken` away, or not, may be so no more; then `above` says whether."""
        first = int(now // HOUR) + 1
        for hour in range(first, first + _AHEAD):
            if (self.price(hour) > self.market.bid) != taken:
                return hour * HOUR
        return (first + _AHEAD) * HOUR

    def above(self, now: float) -> bool:
        """Whether the price is above the bid."""
        return self.price(int(now // HOUR)) > self.market.bid

    def paid(self, start: float, end: float) -> float:
        """What one node costs from one time to another."""
        total, now = 0.0, start
        while now < end:
            hour = int(now // HOUR)
            until = min(end, (hour + 1) * HOUR)
            total += (until - now) / HOUR * self.price(hour)
            now = until
        return total


def read_prices(path: str | Path) -> tuple[float, ...]:
    """The prices of a CSV file with a column `price`, one row for every hour."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if "price" not in (rows.fieldnames or ()):
                raise FormatError(
                    "no column 'price'; give one row for every hour", path=f"{path}:1"
                )
            prices = []
            for row in rows:
                prices.append(_price(row["price"], f"{path}:{rows.line_num}"))
                if len(prices) > _MOST_ROWS:
                    raise FormatError(f"more than {_MOST_ROWS:,} prices", path=str(path))
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", path=str(path)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"not a CSV file: {error}", path=str(path)) from None
    if not prices:
        raise FormatError("has no prices; give one row for every hour", path=str(path))
    return tuple(prices)


def _price(text: str | None, place: str) -> float:
    try:
        price = float(text or "")
    except ValueError:
        raise FormatError(f"price should be a number, not {text!r}", path=place) from None
    if not 0 <= price < math.inf:
        raise FormatError(f"price is {text}; it must be 0 or more", path=place)
    return price
