"""Series of training steps over packed documents, with one replica that becomes slow.

A replica's micro-batch takes a time that its documents decide. The times come from simulated micro-batches of
a generated model; a step waits for the slowest replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.published.tools import seconds_of
from chakrakit.published.training.buckets import machine
from chakrakit.workloads.description import Lengths, Plan, Samples, Step, Workload
from chakrakit.workloads.generate import generated
from chakrakit.workloads.models import model_named
from chakrakit.workloads.samples import document_lengths

SEQ = 8192
JITTER = 0.01
"""Of a replica's time in a step: what clocks and the host leave, a percent."""


@cache
def curve() -> tuple[F64, F64]:
    """Squares of documents, as a share of the whole sequence's, and seconds of a micro-batch with them."""
    points = [(_seconds(mean), mean / SEQ) for mean in (256, 2048, 8192)]
    return np.array([share for _, share in points]), np.array([took for took, _ in points])


def _seconds(mean: int) -> float:
    model = model_named("llama3.2-1b").replace(layers=4)
    samples = Samples(batcher="best-fit", sizes=[mean], window=SEQ // mean)
    step = Step(seq=SEQ, optimizer="none", clip=False, samples=samples, lengths=Lengths())
    return seconds_of(generated(Workload(model=model, plan=Plan(), step=step)).traces(), machine())


@dataclass(frozen=True)
class VaryingSteps:
    """`shares[step, replica, micro-batch]` of squares, and how slow each replica is in each step."""

    shares: F64
    slow: F64

    @property
    def work(self) -> F64:
        """Seconds that each micro-batch takes on a healthy replica."""
        return np.interp(self.shares, *curve())


def drawn(replicas: int, steps: int, quota: int, mean: int, rng: np.random.Generator) -> F64:
    """Squares of the documents of every micro-batch, as a share; documents of a whole sequence are alike."""
    if mean >= SEQ:
        return np.ones((steps, replicas, quota))
    lengths = Lengths(distribution="lognormal", mean=mean, sigma=1.2)
    count = steps * replicas * quota
    pieces = np.minimum(document_lengths(lengths, mean, 12 * count, rng), SEQ).reshape(count, 12)
    ends = np.minimum(np.cumsum(pieces, axis=1), SEQ)
    sizes = np.diff(ends, axis=1, prepend=0)
    shares: F64 = (sizes**2).sum(axis=1) / SEQ**2
    return shares.reshape(steps, replicas, quota)


def quotas(speeds: F64, total: int) -> I64:
    """Whole micro-batches by replica, so that the slowest is done as early as can be."""
    counts = np.zeros(len(speeds), np.int64)
    for _ in range(total):
        counts[np.argmin((counts + 1) / np.maximum(speeds, 1e-9))] += 1
    return counts
