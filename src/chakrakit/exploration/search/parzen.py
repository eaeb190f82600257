"""Which combination to try next: a tree-structured Parzen estimator over axes of a few values each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import F64

Choice = tuple[int, ...]
"""The position of a value on each axis."""

# As Bergstra et al. proposed ("Algorithms for hyper-parameter optimization", NeurIPS 2011, section 4) and as
# optuna and hyperopt have them by default: the best tenth counts as good, and at most 25; of 24 combinations
# drawn from the good the most promising one is tried.
_GOOD_SHARE = 0.1
_MOST_GOOD = 25
_CANDIDATES = 24


@dataclass
class ParzenSampler:
    """Proposes combinations of which most have not been tried, more often alike to those that were good.

    The first `startup` are drawn evenly. Afterwards values of an axis are drawn as often as good combinations
    have them, and the candidate is chosen whose values the good have most often compared with the others.
    The same seed and the same values give the same proposals.
    """

    sizes: Sequence[int]
    """Values of each axis."""
    startup: int
    seed: int = 0
    tried: dict[Choice, float] = field(default_factory=dict)
    """What each combination was worth, the least the best."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def propose(self) -> Choice:
        """The combination to try next; one that was tried already only where nothing new was drawn."""
        if len(self.tried) < self.startup:
            draws = np.stack(
                [self._random.integers(n, size=_CANDIDATES) for n in self.sizes], axis=1
            )
            return self._first_new([tuple(row) for row in draws.tolist()])
        good, others = self._frequencies()
        draws = np.stack([self._random.choice(len(p), _CANDIDATES, p=p) for p in good], axis=1)
        promise = sum(np.log(p[at] / q[at]) for p, q, at in zip(good, others, draws.T, strict=True))
        order = np.argsort(-np.asarray(promise), kind="stable")
        return self._first_new([tuple(row) for row in draws[order].tolist()])

    def _first_new(self, candidates: list[Choice]) -> Choice:
        return next((c for c in candidates if c not in self.tried), candidates[0])

    def _frequencies(self) -> tuple[list[F64], list[F64]]:
        """How often each axis has each value, among the good and among the others; none is impossible."""
        ranked = sorted(self.tried, key=lambda choice: self.tried[choice])
        best = min(_MOST_GOOD, max(1, round(_GOOD_SHARE * len(ranked))))
        return self._smoothed(ranked[:best]), self._smoothed(ranked[best:])

    def _smoothed(self, choices: list[Choice]) -> list[F64]:
        columns = np.array(choices, np.int64).reshape(len(choices), len(self.sizes)).T
        counts = [np.bincount(c, minlength=n) for c, n in zip(columns, self.sizes, strict=True)]
        return [(count + 1 / len(count)) / (len(choices) + 1) for count in counts]
