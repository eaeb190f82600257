"""A small logistic regression, run for real: what s updates from one rounded Gram matrix do to its loss."""

from __future__ import annotations

from functools import cache

import numpy as np

F32 = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@cache
def final_loss(s: int, dtype: str, seed: int, iterations: int) -> float:
    """The loss of a logistic regression after all iterations, s of them from one Gram matrix at a time."""
    rng, samples, rate = np.random.default_rng(seed), 4, 0.5
    data = rng.standard_normal((iterations * samples, 100)).astype(np.float32)
    signs = np.sign(data @ rng.standard_normal(100)).astype(np.float32)
    kept = rounded(data * signs[:, None], dtype)
    weights = np.zeros(100, np.float32)
    for first in range(0, len(kept), s * samples):
        rows = kept[first : first + s * samples]
        gram, margins = rows @ rows.T, rows @ weights
        pull = np.zeros(len(rows), np.float32)
        for i in range(0, len(rows), samples):
            now = margins[i : i + samples] + gram[i : i + samples] @ pull
            pull[i : i + samples] = rate / samples / (1 + np.exp(now))
        weights += rows.T @ pull
    return float(np.logaddexp(0, -(data * signs[:, None]) @ weights).mean())


def rounded(values: F32, dtype: str) -> F32:
    """As bf16 keeps them: the upper half of the bits."""
    if dtype == "fp32":
        return values
    bits = values.view(np.uint32) + np.uint32(0x8000)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)
