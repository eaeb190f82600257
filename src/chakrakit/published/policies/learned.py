"""What studies of learned policies share: a small learner, telemetry that may mislead, perturbations.

A learner keeps the mean reward of each action in each state. It explores while it is trained, on seeds of
its own and without perturbations, and then does what was best. Perturbations were written down before
anything was run: telemetry that is late or noisy, and a load that nobody trained for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TRAINING_SEEDS = tuple(range(1000, 1006))
"""None of these tunes or judges."""
EXPLORES = 0.2
"""The share of actions that are drawn while a policy is trained."""


class Perturbation(NamedTuple):
    """How late and how noisy telemetry is, and how many times the load is that of the training."""

    lag_s: float = 0.0
    noise: float = 0.0
    load: float = 1.0


PERTURBATIONS = {
    "none": Perturbation(),
    "late": Perturbation(lag_s=5.0),
    "noisy": Perturbation(noise=0.5),
    "busier": Perturbation(load=1.25),
}


class Learner:
    """A table of rewards by state and action; `prior` is what is believed before the first one."""

    def __init__(
        self, actions: int, rate: float, prior: Callable[[Hashable, int], float] | None = None
    ) -> None:
        self.actions, self.rate, self.prior = actions, rate, prior
        self.values: dict[tuple[Hashable, int], float] = {}
        self.training = True

    def value(self, state: Hashable, action: int) -> float:
        """What an action is believed to be worth; without a prior what was never tried is worth nothing."""
        if (state, action) not in self.values:
            return self.prior(state, action) if self.prior else 0.0
        return self.values[state, action]

    def choose(self, state: Hashable, rng: random.Random) -> int:
        """The best action so far, or while training now and then any."""
        if self.training and rng.random() < EXPLORES:
            return rng.randrange(self.actions)
        return max(range(self.actions), key=lambda a: self.value(state, a))

    def learn(self, state: Hashable, action: int, reward: float) -> None:
        """Moves what is believed towards what came."""
        if self.training:
            old = self.value(state, action)
            known = (state, action) in self.values or self.prior is not None
            self.values[state, action] = old + self.rate * (reward - old) if known else reward


@dataclass
class SeenQuantity:
    """What a policy sees of a quantity: as it was some time ago, times a factor near 1."""

    count: int
    perturbation: Perturbation
    rng: random.Random
    history: list[tuple[float, list[float]]] = field(default_factory=list)

    def note(self, now_s: float, values: Sequence[float]) -> None:
        """The quantity has changed."""
        self.history.append((now_s, list(values)))

    def seen(self, now_s: float) -> list[float]:
        """The quantity as the policy sees it now."""
        values = [0.0] * self.count
        for at, noted in reversed(self.history):
            if at <= now_s - self.perturbation.lag_s:
                values = noted
                break
        noise = self.perturbation.noise
        return [v * self.rng.lognormvariate(0.0, noise) if noise else v for v in values]


def level(value: float, *bounds: float) -> int:
    """How many of the bounds a value has reached: a state of a table."""
    return sum(value >= bound for bound in bounds)
