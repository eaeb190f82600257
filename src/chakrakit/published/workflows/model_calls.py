"""Workflows of calls to models: chains, fans and trees of calls with prompts that share a beginning."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelCall:
    """A call of a workflow: model, kind of prompt, tokens in and out, and which calls it reads."""

    workflow: int
    number: int
    model: int
    prefix: int
    prompt: int
    output: int
    reads: tuple[int, ...]
    path: int
    """Tokens that are generated from this call to the end of its workflow."""


def random_workflow(rng: random.Random, workflow: int, models: int) -> list[ModelCall]:
    """A chain, a fan with a join, or a tree of 4 to 8 calls.

    Prompts have 1,500 to 6,000 tokens and answers 50 to 400, as agents' calls do.
    """
    count, shape = rng.randint(4, 8), rng.choice(("chain", "fan", "tree"))
    reads = [_reads(rng, shape, i, count) for i in range(count)]
    outputs = [rng.randint(50, 400) for _ in range(count)]
    path = list(outputs)
    for i in reversed(range(count)):
        path[i] += max((path[j] for j in range(count) if i in reads[j]), default=0)
    return [
        ModelCall(
            workflow=workflow,
            number=i,
            model=rng.randrange(models),
            prefix=rng.randrange(6),
            prompt=rng.randint(1500, 6000),
            output=outputs[i],
            reads=reads[i],
            path=path[i],
        )
        for i in range(count)
    ]


def _reads(rng: random.Random, shape: str, i: int, count: int) -> tuple[int, ...]:
    if i == 0:
        return ()
    if shape == "chain":
        return (i - 1,)
    if shape == "tree":
        return (rng.randrange(i),)
    return tuple(range(1, count - 1)) if i == count - 1 else (0,)
