"""What a job's steps would take without delays and stragglers, and who keeps them from it.

Three times of every step: as measured; without launch delays, every operation starting when what it needs
is there; and with every operation at the usual time of its type as well (the mean for compute, the median
for communication). What one replica, stage, type or worker costs is the step with its operations as they
were and all others as usual. Method and names follow "Understanding Stragglers in Large Model Training
Using What-if Analysis" (arXiv 2505.05713).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.diagnosis.job_rows import JobRows
from chakrakit.insight.rank import Table
from chakrakit.results import Result

Name = TypeVar("Name", int, str)

PIPELINE = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}
"""Both ends of a message are one type."""


class Repair(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What it would give to repair some suspects; seconds of the mean step."""

    tori: float
    """As it is, without launch delays."""
    tideal: float
    """With everything as usual."""
    trem: float
    """With the suspects as usual."""
    tadd: float
    """With everything but the suspects as usual."""
    rem: float
    """The share of the slowdown that the repair removes."""
    add: float
    """The share of the slowdown that the suspects alone would cause."""


class JobDelays(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Seconds by step; ratios of mean steps."""

    step_t_base: dict[int, float]
    step_t_nodelay: dict[int, float]
    step_t_noblk: dict[int, float]
    launch_slowdown: float
    """Mean measured step over the mean step without launch delays."""
    blocking_slowdown: float
    """Mean step without launch delays over the mean step with everything as usual."""
    launch_step_slowdown: dict[int, float]
    blocking_step_slowdown: dict[int, float]
    blocking_decompose_by_dp_rank: dict[int, float]
    blocking_decompose_by_stage: dict[int, float]
    blocking_decompose_by_optype: dict[str, float]
    blocking_decompose_by_dp_rank_per_step: dict[int, dict[int, float]]
    blocking_decompose_by_stage_per_step: dict[int, dict[int, float]]
    blocking_decompose_by_optype_per_step: dict[int, dict[str, float]]
    m_s: float
    """How much of the slowdown the last stage explains: `last_stage.rem`."""
    m_w: float
    """How much of the slowdown the worst workers explain: `worst_workers.rem`."""
    last_stage: Repair
    worst_workers: Repair
    suspects: list[int]
    """The ranks of the worst workers."""

    def table(self) -> Table:
        """Contributions, worst first."""
        head = ("what", "slowdown")
        rows: list[tuple[str, float]] = [
            ("launch delays", round(self.launch_slowdown, 3)),
            ("stragglers", round(self.blocking_slowdown, 3)),
        ]
        for kind, found in (
            ("replica", self.blocking_decompose_by_dp_rank),
            ("stage", self.blocking_decompose_by_stage),
            ("", self.blocking_decompose_by_optype),
        ):
            rows += [(f"{kind} {name}".strip(), round(v, 3)) for name, v in found.items()]
        return Table.of("what slows the steps down", head, rows)


class Scenarios:
    """The job timed again under different assumptions; each is computed when asked for."""

    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.usual = _usual(rows)
        self.nodelay = rows.step_seconds(rows.own)
        self.ideal = rows.step_seconds(self.usual)

    def only(self, kept: Mask) -> F64:
        """With these operations as they were, all others as usual."""
        return self.rows.step_seconds(np.where(kept, self.rows.own, self.usual))

    def without(self, repaired: Mask) -> F64:
        """With these operations as usual, all others as they were."""
        return self.rows.step_seconds(np.where(repaired, self.usual, self.rows.own))

    def repair(self, suspects: Mask) -> Repair:
        """What repairing them would give."""
        tori, tideal = float(self.nodelay.mean()), float(self.ideal.mean())
        trem = float(self.without(suspects).mean())
        tadd = float(self.only(suspects).mean())
        lost = tori - tideal
        return Repair(
            tori=tori,
            tideal=tideal,
            trem=trem,
            tadd=tadd,
            rem=(tori - trem) / lost if lost else 0.0,
            add=(tadd - tideal) / lost if lost else 0.0,
        )


def _usual(rows: JobRows) -> I64:
    out = np.empty(len(rows), np.int64)
    for code in range(len(rows.names)):
        mine = np.flatnonzero(rows.name == code)
        own = rows.own[mine]
        out[mine] = round(float(np.median(own) if rows.is_comm[mine[0]] else own.mean()))
    return out


def job_delays(rows: JobRows) -> JobDelays:
    """All of it for one job."""
    cases = Scenarios(rows)
    base, nodelay, ideal = rows.measured, cases.nodelay, cases.ideal
    replicas = _by_number(cases, rows.dp_rank)
    stages = _by_number(cases, rows.stage)
    types = _by_type(cases)
    by_replica, by_stage = _means(replicas, ideal), _means(stages, ideal)
    suspects = _worst(rows, by_replica, by_stage)
    last_stage = cases.repair(rows.stage == rows.stage.max())
    worst_workers = cases.repair(np.isin(rows.rank, suspects))
    return JobDelays(
        step_t_base=_named(rows, base),
        step_t_nodelay=_named(rows, nodelay),
        step_t_noblk=_named(rows, ideal),
        launch_slowdown=float(base.mean() / nodelay.mean()),
        blocking_slowdown=float(nodelay.mean() / ideal.mean()),
        launch_step_slowdown=_named(rows, base / nodelay),
        blocking_step_slowdown=_named(rows, nodelay / ideal),
        blocking_decompose_by_dp_rank=by_replica,
        blocking_decompose_by_stage=by_stage,
        blocking_decompose_by_optype=_means(types, ideal),
        blocking_decompose_by_dp_rank_per_step=_per_step(rows, replicas, ideal),
        blocking_decompose_by_stage_per_step=_per_step(rows, stages, ideal),
        blocking_decompose_by_optype_per_step=_per_step(rows, types, ideal),
        m_s=last_stage.rem,
        m_w=worst_workers.rem,
        last_stage=last_stage,
        worst_workers=worst_workers,
        suspects=suspects,
    )


def _by_number(cases: Scenarios, of: I64) -> dict[int, F64]:
    return {int(v): cases.only(of == v) for v in np.unique(of)}


def _by_type(cases: Scenarios) -> dict[str, F64]:
    rows = cases.rows
    kinds = [PIPELINE.get(name, name) for name in rows.names]
    return {
        kind: cases.only(np.isin(rows.name, [i for i, k in enumerate(kinds) if k == kind]))
        for kind in dict.fromkeys(kinds)
    }


def _means(found: dict[Name, F64], ideal: F64) -> dict[Name, float]:
    ratios = {name: float(seconds.mean() / ideal.mean()) for name, seconds in found.items()}
    return dict(sorted(ratios.items(), key=lambda item: -item[1]))


def _per_step(rows: JobRows, found: dict[Name, F64], ideal: F64) -> dict[int, dict[Name, float]]:
    return {
        step: {name: float(seconds[i] / ideal[i]) for name, seconds in found.items()}
        for i, step in enumerate(rows.steps)
    }


def _named(rows: JobRows, values: F64) -> dict[int, float]:
    return {step: float(value) for step, value in zip(rows.steps, values, strict=True)}


def _worst(rows: JobRows, replicas: dict[int, float], stages: dict[int, float]) -> list[int]:
    """The worst 3 % of workers, at least one; a worker is as bad as its better half."""
    ranks, first = np.unique(rows.rank, return_index=True)
    score = {
        int(rank): min(replicas[int(rows.dp_rank[i])], stages[int(rows.stage[i])])
        for rank, i in zip(ranks, first, strict=True)
    }
    count = -(-len(score) * 3 // 100)
    return sorted(score, key=lambda rank: (-score[rank], rank))[:count]
