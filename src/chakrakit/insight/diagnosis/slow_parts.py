"""Which ranks and links are slow, judged against their peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64
from chakrakit.insight.diagnosis.culprit import Culprit, RankPace

LEAST_LINK_FACTOR = 1.05


def slow_links(counters: Mapping[str, pa.Table], paces: Sequence[RankPace]) -> list[Culprit]:
    """Slow links, the slowest first; both directions of a cable are one."""
    table = counters.get("links")
    if table is None:
        return []
    found: dict[tuple[str, ...], tuple[float, float]] = {}
    columns = (
        table[n].to_pylist() for n in ("src", "dst", "bandwidth", "full_rate", "full_since_ns")
    )
    for src, dst, bandwidth, rate, since in zip(*columns, strict=True):
        if rate < 0 or rate * LEAST_LINK_FACTOR >= bandwidth:  # -1: it was never full
            continue
        ends = tuple(sorted((src, dst), key=lambda name: (not name.startswith("device"), name)))
        factor, first = found.get(ends, (1.0, since))
        worst = bandwidth / rate if rate else float("inf")
        found[ends] = (max(factor, worst), min(first, since))
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return [_culprit(ends, *seen, paces) for ends, seen in ordered]


def _culprit(
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
    """The step during which something happened, by the first rank that has steps."""
    pace = next((p for p in paces if len(p.step)), None)
    if pace is None:
        return None
    place = int(np.searchsorted(pace.start_ns, time_ns, "right")) - 1
    return int(pace.step[max(place, 0)])


# Ranks whose own work takes longer than that of ranks which do the same, and since when.
#
# Every step compares a rank with the middle one of its peers, so that what slows all of them down, such as
# longer sequences, is nobody's fault. A rank is slow over the steps that explain its lag best, if the lag
# is far above what chance makes of so many ranks and steps.


LEAST_STEPS, LEAST_PEERS = 8, 4
"""Fewer steps or peers than this say nothing."""
LEAST_RANK_FACTOR = 1.02
"""Less than this is not worth anybody's time."""
SURE = 8.0
"""Standard errors above which a lag is no chance: among 10,000 ranks and 10,000 steps, one in 10⁷ runs."""
LASTING = 3
"""Steps that a lag lasts at least."""
BORDERS = 2
"""How often the borders of a stretch are moved in turn."""
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
        first, end, mean, errors = _best_stretch(mine, noise)
        factor = float(np.exp(mean))
        if factor >= LEAST_RANK_FACTOR and errors >= SURE:
            until = int(steps[end]) if end < len(steps) else None
            yield _slow_ranks_culprit(rank.rank, factor, int(steps[first]), until, first == 0)


def _spread(lag: F64) -> float:
    """The usual deviation of one rank in one step; a few slow ones do not change it."""
    return 1.4826 * float(np.median(np.abs(lag - np.median(lag))))


def _best_stretch(lag: F64, noise: float) -> tuple[int, int, float, float]:
    """The steps over which a constant lag explains most: first, end, the lag, its standard errors.

    Windows of growing lengths find where it is, then each border is moved to its best place.
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
    """The best window of each length, lengths growing by a quarter."""
    length, steps = LASTING, len(sums) - 1
    while length <= steps:
        first = int(np.argmax(sums[length:] - sums[:-length]))
        yield first, first + length
        length = max(length + 1, length * 5 // 4)
    yield 0, steps


def _gain(sums: F64, first: Any, end: Any) -> Any:
    """What a lag over these steps explains; nothing where it is none."""
    lag = np.maximum(sums[end] - sums[first], 0.0)
    return lag**2 / (end - first)


def _slow_ranks_culprit(
    rank: int, factor: float, since: int, until: int | None, always: bool
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
