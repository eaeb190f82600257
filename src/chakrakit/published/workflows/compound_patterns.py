"""Patterns of compound AI systems as programs: one model, cascade, router, vote, race, decompose, refine.

A request is easy or hard. A model answers it rightly with a probability from a table, and a check tells a
right answer from a wrong one most of the time. Both are drawn once per request and model, so that patterns
meet the same luck.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chakrakit.simulator import live


class ModelTable(NamedTuple):
    """Seconds and cost of a call, and how often it is right, by easy and hard."""

    seconds: float
    cost: float
    right: tuple[float, float]


MODELS = {
    "small": ModelTable(0.3, 1.0, (0.95, 0.40)),
    "medium": ModelTable(0.9, 5.0, (0.96, 0.65)),
    "large": ModelTable(2.4, 20.0, (0.97, 0.85)),
}
"""Assumed, in the proportions of hosted models of one family; what is swept is how many requests are hard."""
SEEN_RIGHT, SEEN_WRONG = 0.95, 0.15
"""How often a check passes a right answer, and a wrong one. Assumed."""
ROUTED_WELL = 0.9
"""How often a router tells easy from hard. Assumed."""


@dataclass
class PatternRequest:
    """One request: whether it is hard, and the luck of each call."""

    number: int
    hard: bool
    rng: random.Random
    answers: dict[str, bool] = field(default_factory=dict)
    cost: float = 0.0

    def right(self, model: str, call: str = "") -> bool:
        """Whether the model's answer is right; the same for the same call."""
        if model + call not in self.answers:
            self.answers[model + call] = self.rng.random() < MODELS[model].right[self.hard]
        return self.answers[model + call]

    def passes(self, right: bool) -> bool:
        """Whether a check lets an answer pass."""
        return self.rng.random() < (SEEN_RIGHT if right else SEEN_WRONG)


class Compound:
    """The pools of models, and one program per pattern."""

    def __init__(self, world: live.World, width: int) -> None:
        self.pools = {name: world.pool(name, width) for name in MODELS}

    def call(self, request: PatternRequest, model: str, work: float = 1.0) -> live.Verb:
        """One call; `work` is its share of a whole one."""
        request.cost += MODELS[model].cost * work
        return live.use(self.pools[model], MODELS[model].seconds * work * live.S)

    def one(self, r: PatternRequest, model: str, votes: int) -> live.Program:
        """A single model, or the majority of several of its answers at once."""
        yield live.all_of(*(self.call(r, model) for _ in range(votes)))
        rights = [r.right(model, "" if k == 0 else str(k)) for k in range(votes)]
        return sum(rights) * 2 > votes

    def cascade(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """The second model where a check does not pass the first one's answer."""
        yield self.call(r, first)
        if r.passes(r.right(first)):
            return r.right(first)
        yield self.call(r, second)
        return r.right(second)

    def router(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """One of both, by what the request looks like."""
        looks_hard = r.hard == (r.rng.random() < ROUTED_WELL)
        model = second if looks_hard else first
        yield self.call(r, model)
        return r.right(model)

    def race(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """Both at once; the first one's answer as soon as it passes."""
        ahead, behind = self.call(r, first), self.call(r, second)
        if r.passes(r.right(first)):
            yield live.any_of(ahead, behind)
            return r.right(first)
        yield live.all_of(ahead, behind)
        return r.right(second)

    def vote(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """Three of the first at once; the second where they disagree."""
        yield live.all_of(*(self.call(r, first) for _ in range(3)))
        rights = [r.right(first, "" if k == 0 else str(k)) for k in range(3)]
        if len(set(rights)) == 1:
            return rights[0]
        yield self.call(r, second)
        return r.right(second)

    def decompose(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """Three thirds of the work at once, put together by a short call; parts are as a medium model's."""
        yield live.all_of(*(self.call(r, first, 1 / 3) for _ in range(3)))
        yield self.call(r, second, 1 / 3)
        return r.right("medium")

    def refine(self, r: PatternRequest, first: str, second: str) -> live.Program:
        """An answer, a check by the second model, and one more attempt."""
        yield self.call(r, first)
        yield self.call(r, second, 1 / 3)
        if r.passes(r.right(first)):
            return r.right(first)
        yield self.call(r, second)
        return r.right(second, "refined")

    def program(self, r: PatternRequest, pattern: Sequence[str]) -> live.Program:
        """The program of a pattern such as `cascade small large` or `large 3`."""
        name, *models = pattern
        if name in MODELS:
            return self.one(r, name, int(models[0]))
        named: live.Program = getattr(self, name)(r, *models)
        return named
