"""Requests and iterations: what a serving engine puts into one pass of the model.

An iteration is a batch of pieces of requests: `new` tokens are processed on top of `cached` ones. A
prompt may be cut into chunks; a request that generates has one new token per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np

from chakrakit.workloads.description import Step
from chakrakit.workloads.generate.continuous import continuous_batches
from chakrakit.workloads.program import document_lengths


@dataclass(frozen=True)
class Piece:
    """Tokens of one request in one iteration."""

    request: int
    new: int
    cached: int
    samples: bool
    """Whether the next token is wanted: for the last chunk of a prompt, and in decoding."""

    @property
    def pairs(self) -> Fraction:
        """Query–key pairs of a causal mask: half a square over the new tokens, all over the cached ones.

        A single new token meets every cached token and itself.
        """
        if self.new == 1:
            return Fraction(self.cached + 1)
        return Fraction(self.new**2, 2) + self.new * self.cached


@dataclass(frozen=True)
class Iteration:
    """One pass of the model."""

    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> int:
        """New tokens."""
        return sum(p.new for p in self.pieces)

    @property
    def pairs(self) -> Fraction:
        """Query–key pairs."""
        return sum((p.pairs for p in self.pieces), Fraction(0))

    @property
    def cached(self) -> int:
        """Tokens read from the cache."""
        return sum(p.cached for p in self.pieces)

    @property
    def sampled(self) -> int:
        """Tokens the head works on."""
        return sum(p.samples for p in self.pieces)


def prompts(step: Step, replica: int, count: int) -> list[int]:
    """Prompt lengths: all `seq`, or drawn from `lengths` (seeded)."""
    if step.lengths.distribution == "fixed":
        return [step.lengths.mean or step.seq] * count
    rng = np.random.default_rng((step.seed, 3, replica))
    drawn = document_lengths(step.lengths, step.lengths.mean or step.seq, count, rng)
    return [int(n) for n in drawn]


def iterations(step: Step, replica: int, count: int) -> list[Iteration]:
    """What a replica runs for its `count` requests."""
    lengths = prompts(step, replica, count)
    if step.kind == "prefill":
        return prefills(lengths, step.micro_batch)
    if step.kind == "decode":
        return decodes([step.cached or n for n in lengths], step.new_tokens)
    return list(_continuous(lengths, step))


def prefills(lengths: Sequence[int], size: int) -> list[Iteration]:
    """Whole prompts, so many in a pass."""
    pieces = [Piece(request, n, 0, True) for request, n in enumerate(lengths)]
    return [Iteration(tuple(pieces[i : i + size])) for i in range(0, len(pieces), size)]


def decodes(cached: Sequence[int], count: int) -> list[Iteration]:
    """One more token for every request in each of `count` passes."""
    return [
        Iteration(tuple(Piece(r, 1, n + done, True) for r, n in enumerate(cached)))
        for done in range(count)
    ]


def _continuous(lengths: list[int], step: Step) -> Iterator[Iteration]:
    """Decodes first, then as much of waiting prompts as the token budget leaves; then the next."""
    room = min(step.concurrency or len(lengths), len(lengths))
    batches = continuous_batches(lengths, step.new_tokens, step.token_budget, room)
    rows = zip(
        *(batches[n].tolist() for n in ("step", "request", "tokens", "context", "gives")),
        strict=True,
    )
    for _, own in groupby(rows, key=lambda row: row[0]):
        yield Iteration(tuple(Piece(r, new, cached, gives > 0) for _, r, new, cached, gives in own))
