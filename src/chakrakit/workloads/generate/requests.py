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

import chakrakit.core as core
from chakrakit.workloads.description import Step
from chakrakit.workloads.samples import document_lengths

# --- continuous batching, when all requests are there from the start ----------------------------
#
# The engine is the one that `serve` runs, in the compiled core, with steps that all take the same time and
# a cache that never runs out: what is left is its continuous batching.


Columns = dict[str, np.ndarray]
_ALWAYS = (
    2**62
)  # picoseconds: later than every event of a simulation, and no overflow when added to


def continuous_batches(
    prompts: Sequence[int], output: int, token_budget: int, concurrency: int
) -> Columns:
    """Pieces in the order they run: step, request, tokens, context, and output tokens it gives."""
    options = core.ServingOptions()
    options.token_budget, options.max_requests = token_budget, concurrency
    options.block_size, options.num_blocks = max(prompts) + output, concurrency
    cluster = core.ServingCluster(_problem(_together(prompts, output), options))
    cluster.run()
    return cluster.pieces()


def _together(prompts: Sequence[int], output: int) -> core.ServingRequests:
    none = np.zeros(len(prompts), np.int64)
    return core.ServingRequests(
        arrival=none,
        prompt=np.array(prompts, np.int64),
        output=none + output,
        after=none - 1,
        priority=none,
        adapter=none - 1,
        offsets=np.zeros(len(prompts) + 1, np.int64),
        ids=np.zeros(0, np.uint64),
        unit=1,
    )


def _problem(requests: core.ServingRequests, options: core.ServingOptions) -> core.ServingProblem:
    free = core.ServingRoofline(ps_per_pair=0.0, ps_per_token=0.0, ps_per_context=0.0, least=0.0)
    cost = core.ServingCost(
        dense=lambda _tokens: 1,
        head=lambda _sampled: 0,
        attention=free,
        captured=np.zeros(0, np.int64),
        adapter=0,
        draft=0,
    )
    whole = core.ServingRole.whole
    pool = core.ServingPool(role=whole, engines=1, ranks=1, options=options, cost=cost)
    problem = core.ServingProblem(
        requests=requests,
        pools=[pool],
        router=core.ServingRouter.turn,
        concurrency=0,
        remote_blocks=0,
    )
    problem.record(False, 0, _ALWAYS, 0)
    return problem


@dataclass(frozen=True)
class RequestPiece:
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

    pieces: tuple[RequestPiece, ...]

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
    pieces = [RequestPiece(request, n, 0, True) for request, n in enumerate(lengths)]
    return [Iteration(tuple(pieces[i : i + size])) for i in range(0, len(pieces), size)]


def decodes(cached: Sequence[int], count: int) -> list[Iteration]:
    """One more token for every request in each of `count` passes."""
    return [
        Iteration(tuple(RequestPiece(r, 1, n + generated, True) for r, n in enumerate(cached)))
        for generated in range(count)
    ]


def _continuous(lengths: list[int], step: Step) -> Iterator[Iteration]:
    """Yields iterations of continuous batching: decodes, then as much of prompts as the budget allows."""
    room = min(step.concurrency or len(lengths), len(lengths))
    batches = continuous_batches(lengths, step.new_tokens, step.token_budget, room)
    rows = zip(
        *(batches[n].tolist() for n in ("step", "request", "tokens", "context", "gives")),
        strict=True,
    )
    for _, step_rows in groupby(rows, key=lambda row: row[0]):
        yield Iteration(
            tuple(RequestPiece(r, new, cached, gives > 0) for _, r, new, cached, gives in step_rows)
        )
