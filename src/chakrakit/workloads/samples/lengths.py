"""Lengths drawn from a distribution, and the documents of a micro-batch."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.workloads.description import Lengths, Step

_MOST_DOCUMENTS = 1 << 16
"""Of one sequence: the longest contexts have ten million tokens, 150 for each of so many documents."""


def document_lengths(lengths: Lengths, mean: int, count: int, rng: np.random.Generator) -> F64:
    """Whole lengths of `count` documents, at least one token each."""
    if lengths.distribution == "uniform":
        drawn = rng.uniform(1, 2 * mean, count)
    elif lengths.distribution == "lognormal":
        sigma = abs(lengths.sigma)  # to NumPy, -0.0 is negative
        drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    else:
        drawn = np.full(count, float(mean))
    return np.asarray(np.maximum(1.0, np.rint(drawn)))


def has_documents(step: Step) -> bool:
    """Whether sequences hold several documents of drawn lengths."""
    if step.samples.batcher:
        return False  # lengths are those of samples
    return step.lengths.distribution != "fixed" or 0 < step.lengths.mean < step.seq


def packed_documents(step: Step, replica: int, number: int) -> list[F64]:
    """The documents of each sequence of a replica's micro-batch, which its number seeds."""
    rng = np.random.default_rng((step.seed, 1, replica, number))
    return [_filling(step.lengths, step.seq, rng) for _ in range(step.micro_batch)]


def _filling(lengths: Lengths, seq: int, rng: np.random.Generator) -> F64:
    """Lengths of documents that fill a sequence; the last is cut."""
    mean = lengths.mean or seq
    wanted = min(max(4, 4 * seq // mean), _MOST_DOCUMENTS)
    drawn = document_lengths(lengths, mean, wanted, rng)
    while drawn.sum() < seq:
        if len(drawn) > _MOST_DOCUMENTS:
            raise ConfigError(
                f"a sequence of {seq:,} tokens has more than {_MOST_DOCUMENTS:,} documents; use a "
                "larger mean, or a smaller sigma"
            )
        drawn = np.concatenate([drawn, document_lengths(lengths, mean, len(drawn), rng)])
    ends = np.minimum(np.cumsum(drawn), seq)
    sizes = np.diff(np.concatenate([[0.0], ends]))
    return sizes[sizes > 0]
