"""Requests and iterations: what a serving engine puts into one pass of the model.

An iteration is a batch of pieces of requests: `new` tokens are processed on top of `cached` ones. A
prompt may be cut into chunks; a request that generates has one new token per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chakrakit.workloads.description import Step
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
        return [_prefill(batch) for batch in _batches(lengths, step.micro_batch)]
    if step.kind == "decode":
        cached = [step.cached or n for n in lengths]
        return [_decode(cached, i) for i in range(step.new_tokens)]
    return list(_continuous(lengths, step))


def _batches(lengths: list[int], size: int) -> Iterator[list[tuple[int, int]]]:
    numbered = list(enumerate(lengths))
    return (numbered[i : i + size] for i in range(0, len(numbered), size))


def _prefill(batch: list[tuple[int, int]]) -> Iteration:
    return Iteration(tuple(Piece(request, n, 0, True) for request, n in batch))


def _decode(cached: list[int], done: int) -> Iteration:
    return Iteration(tuple(Piece(r, 1, n + done, True) for r, n in enumerate(cached)))


def _continuous(lengths: list[int], step: Step) -> Iterator[Iteration]:
    """Decodes first, then as much of waiting prompts as the token budget leaves; then the next."""
    room = step.concurrency or len(lengths)
    read, made = [0] * len(lengths), [0] * len(lengths)
    while any(m < step.new_tokens for m in made):
        active = [r for r in range(len(lengths)) if made[r] < step.new_tokens][:room]
        pieces, budget = [], step.token_budget
        for r in sorted(active, key=lambda r: read[r] < lengths[r]):
            new = min(1 if read[r] >= lengths[r] else lengths[r] - read[r], budget)
            if new > 0:
                cached = read[r] + max(made[r] - 1, 0)
                samples = read[r] + new >= lengths[r]
                pieces.append(Piece(r, new, cached, samples))
                budget -= new
        for p in pieces:
            read[p.request] = min(read[p.request] + p.new, lengths[p.request])
            made[p.request] += p.samples
        yield Iteration(tuple(pieces))
