"""Slow links, judged by their bandwidth, and slow ranks, judged by ranks that do the same work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64
from chakrakit.insight.diagnosis.culprit import Culprit, RankPace

LEAST_LINK_FACTOR = 1.05
"""A link within 5 % of its bandwidth does not count as slow: repairing it would gain too little."""


def slow_links(counters: Mapping[str, pa.Table], paces: Sequence[RankPace]) -> list[Culprit]:
    """Links that were full below their bandwidth, the slowest first; directions of a cable count as one."""
    table = counters.get("links")
    if table is None:
        return []
    slow: dict[tuple[str, ...], tuple[float, float]] = {}
    columns = (
        table[n].to_pylist() for n in ("src", "dst", "bandwidth", "full_rate", "full_since_ns")
    )
    for src, dst, bandwidth, rate, since in zip(*columns, strict=True):
        if rate < 0 or rate * LEAST_LINK_FACTOR >= bandwidth:  # -1: it was never full
            continue
        ends = tuple(sorted((src, dst), key=lambda name: (not name.startswith("device"), name)))
        factor, first = slow.get(ends, (1.0, since))
        worst = bandwidth / rate if rate else float("inf")
        slow[ends] = (max(factor, worst), min(first, since))
    ordered = sorted(slow.items(), key=lambda item: -item[1][0])
    return [_link_culprit(ends, *factor_and_start, paces) for ends, factor_and_start in ordered]


def _link_culprit(
    ends: tuple[str, ...], factor: float, since: float, paces: Sequence[RankPace]
) -> Culprit:
    link = "-".join(ends)
    return Culprit(
        kind="slow-link",
        link=link,
        since_step=_step_at(paces, int(since)),
        factor=factor,
        detail=f"the link {link} is full at 1/{factor:.2f} of its bandwidth",
    )


def _step_at(paces: Sequence[RankPace], time_ns: int) -> int | None:
    """The step that this time falls into, by the first rank that has steps; None if none has."""
    pace = next((p for p in paces if len(p.step)), None)
    if pace is None:
        return None
    place = int(np.searchsorted(pace.start_ns, time_ns, "right")) - 1
    return int(pace.step[max(place, 0)])


# --- slow ranks -----------------------------------------------------------------------------------
#
# In every step a rank is compared with the median of its peers, so that it is not blamed for what slows all
# of them down, such as longer sequences. A rank is slow over the stretch of steps that explains its lag best,
# if the lag is far above what chance produces among so many ranks and steps. Where steps are too few for
# that, operations take their place: a slow device is slow in almost all of them.

LEAST_STEPS, LEAST_PEERS = 8, 4
"""With fewer steps or peers than this, a lag cannot be told from chance."""
LEAST_RANK_FACTOR = 1.02
"""A rank that is slower by less than this is not reported: replacing it would gain too little."""
SURE = 8.0
"""Standard errors from which a lag counts: chance does it in one of 10⁷ runs of 10,000 ranks and steps."""
LASTING = 3
"""The fewest steps that a lag must last: a single slow step has too many innocent causes."""
BORDERS = 2
"""Rounds in which both borders of a stretch move to their best place; more would refine little."""
STEADY = 1e-4
"""The least relative noise assumed for a step: without it, rounding of times would count as evidence."""


def slow_ranks(paces: Iterable[RankPace]) -> list[Culprit]:
    """Ranks that compute longer than others with the same work, the slowest first."""
    cohorts: dict[object, list[RankPace]] = {}
    for pace in paces:
        cohorts.setdefault((pace.work, pace.step.tobytes()), []).append(pace)
    culprits = [culprit for peers in cohorts.values() for culprit in _in_cohort(peers)]
    return sorted(culprits, key=lambda c: (-(c.factor or 0.0), c.rank or 0))


def _in_cohort(peers: Sequence[RankPace]) -> Iterable[Culprit]:
    """The slow ones among ranks that do the same work."""
    steps = peers[0].step
    if len(steps) < LEAST_STEPS:
        yield from _slow_in_all_work(peers)
        return
    if len(peers) < LEAST_PEERS:
        return
    spent = np.stack([p.compute_ns for p in peers])
    counted = (spent > 0).all(axis=0)
    if counted.sum() < LEAST_STEPS:
        return
    steps, lag = steps[counted], np.log(spent[:, counted])
    lag = lag - np.median(lag, axis=0)
    noise = max(_spread(lag), STEADY)
    for rank, mine in zip(peers, lag, strict=True):
        first, end, mean, errors = _best_stretch(mine, noise)
        factor = float(np.exp(mean))
        if factor >= LEAST_RANK_FACTOR and errors >= SURE:
            until = int(steps[end]) if end < len(steps) else None
            yield _rank_culprit(rank.rank, factor, int(steps[first]), until, first == 0)


LEAST_ALIKE = 3
"""Ranks of which one can be called slow: of two, nothing says which is the usual one."""
MOST_OF_IT = 0.75
"""The share of its work that has to be slow on a rank whose device is slow. Assumed: most, not all."""


def _slow_in_all_work(peers: Sequence[RankPace]) -> Iterable[Culprit]:
    """Ranks that take longer than their peers in most of their operations, over the whole run."""
    if len(peers) < LEAST_ALIKE or not (peers[0].by_name > 0).any():
        return
    spent = np.stack([p.by_name for p in peers])
    counted = (spent > 0).all(axis=0)
    usual = np.median(spent[:, counted], axis=0)
    lag = np.log(spent[:, counted] / usual)
    noise = max(_spread(lag), STEADY)
    for rank, mine, own in zip(peers, lag, spent[:, counted], strict=True):
        factor = float(own.sum() / usual.sum()) if usual.sum() else 1.0
        slow = float(usual[mine > np.log(factor) / 2].sum()) if factor > 1 else 0.0
        errors = np.log(factor) * np.sqrt(len(mine)) / noise
        if factor >= LEAST_RANK_FACTOR and errors >= SURE and slow >= MOST_OF_IT * usual.sum():
            since, factor = _onset(rank, peers, factor)
            first = int(rank.step[0]) if len(rank.step) else None
            yield _rank_culprit(rank.rank, factor, since, None, since == first)


def _onset(rank: RankPace, peers: Sequence[RankPace], factor: float) -> tuple[int | None, float]:
    """From which of few steps on a rank that is slow over the run is so, and by what factor from then on.

    Steps before count as usual where they lag by less than half of what the slowest does.
    """
    if not len(rank.step):
        return None, factor
    spent = np.stack([p.compute_ns for p in peers])
    if not (spent > 0).all():
        return int(rank.step[0]), factor
    lag = np.log(rank.compute_ns / np.median(spent, axis=0))
    slow = lag > lag.max() / 2
    first = int(np.argmax(slow))
    if first == 0 or not slow[first:].all():
        return int(rank.step[0]), factor
    return int(rank.step[first]), float(np.exp(lag[first:].mean()))


def _spread(lag: F64) -> float:
    """The standard deviation of one rank in one step, estimated so that a few slow ranks do not change it."""
    # 1.4826 = 1 / Φ⁻¹(3/4): the standard deviation of a normal distribution over its median deviation.
    return 1.4826 * float(np.median(np.abs(lag - np.median(lag))))


def _best_stretch(lag: F64, noise: float) -> tuple[int, int, float, float]:
    """The stretch of steps over which a constant lag explains most: first, end, lag, standard errors.

    Windows of growing length find roughly where it is; then each border moves to its best place.
    """
    sums = np.concatenate([[0.0], np.cumsum(lag)])
    first, end = max(_windows(sums), key=lambda window: _gain(sums, *window))
    for _ in range(BORDERS):
        starts = np.arange(0, end - LASTING + 1)
        first = int(starts[np.argmax(_gain(sums, starts, end))])
        ends = np.arange(first + LASTING, len(sums))
        end = int(ends[np.argmax(_gain(sums, first, ends))])
    errors = np.sqrt(_gain(sums, first, end)) / noise
    return first, end, float(sums[end] - sums[first]) / (end - first), float(errors)


def _windows(sums: F64) -> Iterable[tuple[int, int]]:
    """For lengths that grow by a quarter, the window with the largest lag; finally, all steps."""
    length, steps = LASTING, len(sums) - 1
    while length <= steps:
        first = int(np.argmax(sums[length:] - sums[:-length]))
        yield first, first + length
        length = max(length + 1, length * 5 // 4)
    yield 0, steps


def _gain(sums: F64, first: Any, end: Any) -> Any:
    """How much a constant lag over these steps explains; 0 where the mean lag is not positive."""
    lag = np.maximum(sums[end] - sums[first], 0.0)
    return lag**2 / (end - first)


def _rank_culprit(
    rank: int, factor: float, since: int | None, until: int | None, always: bool
) -> Culprit:
    when = "from the first step" if always else f"since step {since}"
    over = "" if until is None else f" and until step {until}"
    return Culprit(
        kind="slow-rank",
        rank=rank,
        since_step=since,
        factor=factor,
        detail=f"rank {rank} computes {factor:.2f} times as long as its peers {when}{over}",
    )
