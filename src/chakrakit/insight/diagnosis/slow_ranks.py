"""Ranks whose own work takes longer than that of ranks which do the same, and since when.

Every step compares a rank with the middle one of its peers, so that what slows all of them down, such as
longer sequences, is nobody's fault. A rank is slow from the step on that explains its lag best, if the
lag is far above what chance makes of so many ranks and steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from chakrakit.arrays import F64
from chakrakit.insight.diagnosis.culprit import Culprit
from chakrakit.insight.diagnosis.pace import RankPace

LEAST_STEPS, LEAST_PEERS = 8, 4
"""Fewer steps or peers than this say nothing."""
LEAST_FACTOR = 1.02
"""Less than this is not worth anybody's time."""
SURE = 8.0
"""Standard errors above which a lag is no chance: among 10,000 ranks and 10,000 steps, one in 10⁷ runs."""
LASTING = 3
"""Steps that a lag lasts at least."""
STEADY = 1e-4
"""Work of steady length still varies by so much: rounding of times is no evidence."""


def slow_ranks(paces: Iterable[RankPace]) -> list[Culprit]:
    """Slow ranks, the slowest first."""
    cohorts: dict[object, list[RankPace]] = {}
    for pace in paces:
        cohorts.setdefault((pace.work, pace.step.tobytes()), []).append(pace)
    found = [culprit for peers in cohorts.values() for culprit in _in_cohort(peers)]
    return sorted(found, key=lambda c: (-(c.factor or 0.0), c.rank or 0))


def _in_cohort(peers: Sequence[RankPace]) -> Iterable[Culprit]:
    """Slow ranks among those that do the same."""
    steps = peers[0].step
    if len(steps) < LEAST_STEPS or len(peers) < LEAST_PEERS:
        return
    spent = np.stack([p.compute_ns for p in peers])
    counted = (spent > 0).all(axis=0)
    if counted.sum() < LEAST_STEPS:
        return
    steps, lag = steps[counted], np.log(spent[:, counted])
    lag = lag - np.median(lag, axis=0)
    noise = max(_spread(lag), STEADY)
    for rank, mine in zip(peers, lag, strict=True):
        since, mean, errors = _best_since(mine, noise)
        factor = float(np.exp(mean))
        if factor >= LEAST_FACTOR and errors >= SURE:
            yield _culprit(rank.rank, int(steps[since]), factor, int(steps[0]))


def _spread(lag: F64) -> float:
    """The usual deviation of one rank in one step; a few slow ones do not change it."""
    return 1.4826 * float(np.median(np.abs(lag - np.median(lag))))


def _best_since(lag: F64, noise: float) -> tuple[int, float, float]:
    """The step from which on a constant lag explains most: its number, the lag, its standard errors."""
    left = np.arange(len(lag), 0, -1)
    sums = np.cumsum(lag[::-1])[::-1]
    gain = np.where((sums > 0) & (left >= LASTING), sums**2 / left, 0.0)
    since = int(np.argmax(gain))
    return since, float(sums[since] / left[since]), float(np.sqrt(gain[since]) / noise)


def _culprit(rank: int, since: int, factor: float, first: int) -> Culprit:
    when = "from the first step" if since == first else f"since step {since}"
    return Culprit(
        kind="slow-rank",
        rank=rank,
        since_step=since,
        factor=factor,
        detail=f"rank {rank} computes {factor:.2f} times as long as its peers {when}",
    )
