"""How long until something happens, drawn from a distribution."""

from __future__ import annotations

import math
from random import Random
from typing import Protocol

import msgspec


class Duration(Protocol):
    """A random length of time in seconds."""

    @property
    def mean(self) -> float:
        """The expected length."""

    def draw(self, chance: Random) -> float:
        """One length."""


class Fixed(msgspec.Struct, frozen=True):
    """Always the same."""

    mean: float

    def draw(self, chance: Random) -> float:
        """The length itself."""
        return self.mean


class Exponential(msgspec.Struct, frozen=True):
    """Without memory: what has waited long waits no shorter."""

    mean: float

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.expovariate(1.0 / self.mean) if self.mean > 0 else 0.0


class Weibull(msgspec.Struct, frozen=True):
    """Early failures for a shape below 1, wear for one above; 1 is exponential."""

    mean: float
    shape: float

    @property
    def scale(self) -> float:
        """The length within which 63 % have happened."""
        return self.mean / math.gamma(1.0 + 1.0 / self.shape)

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.weibullvariate(self.scale, self.shape)


class Uniform(msgspec.Struct, frozen=True):
    """Anything between two lengths, all alike."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """Half way."""
        return (self.low + self.high) / 2

    def draw(self, chance: Random) -> float:
        """One length."""
        return chance.uniform(self.low, self.high)
