"""Lengths drawn from a distribution."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64
from chakrakit.workloads.description import Lengths


def document_lengths(lengths: Lengths, mean: int, count: int, rng: np.random.Generator) -> F64:
    """Whole lengths of `count` documents, at least one token each."""
    if lengths.distribution == "uniform":
        drawn = rng.uniform(1, 2 * mean, count)
    elif lengths.distribution == "lognormal":
        drawn = rng.lognormal(np.log(mean) - lengths.sigma**2 / 2, lengths.sigma, count)
    else:
        drawn = np.full(count, float(mean))
    return np.asarray(np.maximum(1.0, np.rint(drawn)))
