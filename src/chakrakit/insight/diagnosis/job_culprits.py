"""Who slows a pipeline-parallel job down, from what repairing them would give.

A job straggles if its steps take 10 % longer than with everything as usual; a suspect is to blame if its
repair alone removes half of that (both as in arXiv 2505.05713).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.diagnosis.culprit import Culprit
from chakrakit.insight.diagnosis.delays import JobDelays
from chakrakit.insight.diagnosis.job_rows import JobRows

STRAGGLES = 1.1
BLAMED = 0.5
TOGETHER, VARIED = 0.9, 0.05
"""Forward and backward of a micro-batch vary together, and by more than 5 %: its length varies."""


def job_culprits(rows: JobRows, delays: JobDelays) -> list[Culprit]:
    """Culprits, worst first; none where the job does not straggle."""
    if delays.blocking_slowdown < STRAGGLES:
        return []
    found = [*_workers(rows, delays), *_last_stage(rows, delays), *_lengths(rows, delays)]
    return found or [*_worst_type(delays)]


def _workers(rows: JobRows, delays: JobDelays) -> Iterator[Culprit]:
    if delays.m_w < BLAMED:
        return
    for rank in delays.suspects:
        by_step = _compute_by_step(rows, rank)
        slow = by_step > (1 + by_step.max()) / 2
        since = rows.steps[int(np.argmax(slow))]
        yield Culprit(
            kind="slow-rank",
            rank=rank,
            since_step=since,
            factor=float(by_step[slow].mean()),
            detail=f"repairing rank {rank} alone removes {delays.m_w:.0%} of the slowdown; "
            + _without(delays, delays.worst_workers.trem),
        )


def _last_stage(rows: JobRows, delays: JobDelays) -> Iterator[Culprit]:
    last = int(rows.stage.max())
    # A slow worker of the last stage makes all of it look slow.
    one = delays.m_w >= BLAMED and (rows.stage[np.isin(rows.rank, delays.suspects)] == last).any()
    if delays.m_s < BLAMED or one:
        return
    mine = ~rows.is_comm & (rows.stage == last)
    others = ~rows.is_comm & (rows.stage != last)
    yield Culprit(
        kind="slow-stage",
        stage=last,
        since_step=rows.steps[0],
        factor=_ratio(rows, mine, others),
        detail=f"stage {last} alone explains {delays.m_s:.0%} of the slowdown: give it fewer layers; "
        + _without(delays, delays.last_stage.trem),
    )


def _lengths(rows: JobRows, delays: JobDelays) -> Iterator[Culprit]:
    # A worker that becomes slow varies in both ways, too.
    blamed = delays.suspects if delays.m_w >= BLAMED else []
    forward, backward = (
        _compute(rows, f"{way}-compute", blamed) for way in ("forward", "backward")
    )
    if forward.shape != backward.shape or len(forward) < 3:
        return
    varied = min(float(forward.std()), float(backward.std()))
    together = float(np.corrcoef(forward, backward)[0, 1]) if varied >= VARIED else 0.0
    if together >= TOGETHER:
        yield Culprit(
            kind="sequence-imbalance",
            since_step=rows.steps[0],
            factor=delays.blocking_slowdown,
            detail=f"micro-batches vary by {varied:.0%}, forward and backward together "
            f"(correlation {together:.2f}): balance sequence lengths over micro-batches",
        )


def _worst_type(delays: JobDelays) -> Iterator[Culprit]:
    """Nobody stands out: then the type of operation that varies most."""
    name, ratio = next(iter(delays.blocking_decompose_by_optype.items()))
    kind = "garbage-collection" if name == "gc" else "slow-operation"
    yield Culprit(
        kind=kind,  # type: ignore[arg-type]
        collective=name,
        factor=ratio,
        detail=f"no rank or stage stands out; {name} alone makes steps {ratio:.2f} times as long",
    )


def _compute(rows: JobRows, name: str, without: list[int]) -> F64:
    """Durations of one type over the mean of their rank, by rank, step and micro-batch."""
    if name not in rows.names:
        return np.zeros(0)
    mine = np.flatnonzero((rows.name == rows.names.index(name)) & ~np.isin(rows.rank, without))
    order = np.lexsort((rows.start[mine], rows.micro_batch[mine], rows.step[mine], rows.rank[mine]))
    mine = mine[order]
    _, which = np.unique(rows.rank[mine], return_inverse=True)
    own = rows.own[mine].astype(np.float64)
    mean = np.bincount(which, own) / np.bincount(which)
    return own / mean[which]


def _compute_by_step(rows: JobRows, rank: int) -> F64:
    """A rank's computation over that of the middle rank, by step."""
    compute = ~rows.is_comm
    ranks = np.unique(rows.rank)
    sums = np.zeros((len(ranks), len(rows.steps)))
    place: I64 = np.searchsorted(ranks, rows.rank[compute])
    np.add.at(sums, (place, rows.step[compute]), rows.own[compute])
    mine: F64 = sums[int(np.searchsorted(ranks, rank))]
    return mine / np.maximum(np.median(sums, axis=0), 1.0)


def _ratio(rows: JobRows, mine: Mask, others: Mask) -> float:
    own = rows.own.astype(np.float64)
    a, b = own[mine].mean(), own[others].mean()
    return float(a / b) if b else 1.0


def _without(delays: JobDelays, seconds: float) -> str:
    return f"the step would be {seconds:.3f} s instead of {delays.worst_workers.tori:.3f} s"
