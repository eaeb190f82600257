"""Lengths of prompts and outputs: a number, or a distribution to draw from."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.errors import ConfigError

_ARITY = {"fixed": 1, "exponential": 1, "geometric": 1, "lognormal": 2, "uniform": 2}


class Lengths(msgspec.Struct, frozen=True):
    """`fixed` MEAN, `exponential` MEAN, `geometric` MEAN, `lognormal` MEAN CV, `uniform` LOW HIGH."""

    kind: str
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, what: str) -> Lengths:
        """From `512` or `lognormal:512:0.8`."""
        kind, *rest = str(text).split(":")
        if not rest:
            kind, rest = "fixed", [kind]
        try:
            values = tuple(float(v) for v in rest)
        except ValueError:
            values = ()
        if _ARITY.get(kind) != len(values) or not all(0 < v < 1e9 for v in values):
            raise ConfigError(
                f"{what} length {text!r}: give a number above 0, or lognormal:MEAN:CV, uniform:LOW:HIGH, "
                "exponential:MEAN or geometric:MEAN"
            )
        if kind == "uniform" and values[0] > values[1]:
            raise ConfigError(f"{what} length {text!r}: the lower bound is above the upper one")
        return cls(kind, values)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Whole numbers, 1 or more."""
        first, last = self.values[0], self.values[-1]
        if self.kind == "fixed":
            drawn = np.full(count, first)
        elif self.kind == "exponential":
            drawn = rng.exponential(first, count)
        elif self.kind == "geometric":
            drawn = rng.geometric(1 / max(1.0, first), count).astype(np.float64)
        elif self.kind == "uniform":
            drawn = rng.uniform(first, last + 1, count) // 1
        else:
            sigma = np.sqrt(np.log1p(last**2))
            drawn = rng.lognormal(np.log(first) - sigma**2 / 2, sigma, count)
        return np.asarray(np.maximum(1, np.rint(drawn)), np.int64)
