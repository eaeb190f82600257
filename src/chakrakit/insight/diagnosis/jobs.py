"""Pipeline-parallel jobs: what delays and stragglers cost them, and who is to blame.

The operations of all ranks and steps form one graph that can be timed again (`JobRows`). Every operation has
a row. A communication has two more: its group, which starts when the last member is ready, and its own end,
which comes its transfer time after that. The transfer time of a communication is its end less the latest
start in its group, so that waiting for a peer is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.communication import Matched, match_calls
from chakrakit.insight.diagnosis.culprit import Culprit
from chakrakit.insight.rank import Table, rank_views
from chakrakit.results import Result
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import schedule


def is_job(run: Run) -> bool:
    """Whether the operations of a run have a step, a stage and a replica."""
    if not run.ranks:
        return False
    columns = set(run.body(run.ranks[0]).table.column_names)
    return {"step", "stage", "dp_rank"} <= columns


@dataclass(frozen=True, eq=False)
class JobRows:
    """One entry per operation, ranks one after another; times in nanoseconds."""

    rank: I64
    stage: I64
    dp_rank: I64
    step: I64
    """The number of the step, from 0, in the order of `steps`."""
    steps: list[int]
    """The names of the steps: their numbers in the trace."""
    start: I64
    end: I64
    name: I64
    names: list[str]
    is_comm: Mask
    micro_batch: I64
    group: I64
    """The collective or message that a communication belongs to, as a number; -1 for other operations."""
    edges: Edges
    """Dependencies within the ranks."""

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def own(self) -> I64:
        """How long each operation takes without waiting: its duration, or its transfer time."""
        out = self.end - self.start
        calls = np.flatnonzero(self.group >= 0)
        if len(calls):
            latest = np.full(int(self.group.max()) + 1, np.iinfo(np.int64).min)
            np.maximum.at(latest, self.group[calls], self.start[calls])
            out[calls] = np.maximum(self.end[calls] - latest[self.group[calls]], 0)
        return out

    @cached_property
    def _end_row(self) -> I64:
        """The row of the graph that ends when each operation does."""
        groups = int(self.group.max(initial=-1)) + 1
        calls = np.cumsum(self.group >= 0) - 1
        return np.where(self.group >= 0, len(self) + groups + calls, np.arange(len(self)))

    @cached_property
    def _graph(self) -> tuple[int, Edges]:
        calls = np.flatnonzero(self.group >= 0)
        meeting = len(self) + self.group[calls]
        src = np.concatenate([self._end_row[self.edges.src], calls, meeting])
        dst = np.concatenate([self.edges.dst, meeting, self._end_row[calls]])
        rows = len(self) + int(self.group.max(initial=-1)) + 1 + len(calls)
        return rows, Edges.of(src, dst, EdgeKind.INFERRED, EdgeForm.FINISH_START)

    def step_seconds(self, own_ns: I64) -> F64:
        """How long each step takes if operations take `own_ns` and start as soon as they can."""
        rows, edges = self._graph
        durations = np.zeros(rows, np.int64)
        durations[self._end_row] = own_ns
        end = schedule(rows, edges, durations).end[self._end_row]
        return last_of(self.step, end, len(self.steps)) / 1e9

    @cached_property
    def measured(self) -> F64:
        """How long each step took."""
        first = -last_of(self.step, -self.start, len(self.steps))
        return (last_of(self.step, self.end, len(self.steps)) - first) / 1e9


def last_of(codes: I64, values: I64, count: int) -> I64:
    """The largest of the values that have each code."""
    out = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(out, codes, values)
    return out


def job_rows(run: Run) -> JobRows:
    """The operations of all ranks; `is_job(run)` must be true."""
    views = list(rank_views(run))
    traces = [view.trace for view in views]
    sizes = [len(trace) for trace in traces]
    offset = dict(zip(run.ranks, np.r_[0, np.cumsum(sizes)].tolist(), strict=False))

    def joined(name: str, default: int) -> I64:
        return np.concatenate([t.column(name, default).astype(np.int64) for t in traces])

    names: dict[str, int] = {}
    codes = [names.setdefault(n, len(names)) for t in traces for n in t.names.to_pylist()]
    steps, step = np.unique(joined("step", -1), return_inverse=True)
    matched = match_calls(run)
    types = np.concatenate([t.types for t in traces])
    edges = [
        Edges.of(t.edges.src + o, t.edges.dst + o, EdgeKind.INFERRED, EdgeForm.FINISH_START)
        for t, o in zip(traces, offset.values(), strict=True)
    ]
    return JobRows(
        rank=np.repeat(np.array(run.ranks, np.int64), sizes),
        stage=joined("stage", 0),
        dp_rank=joined("dp_rank", 0),
        step=step.reshape(-1).astype(np.int64),
        steps=[int(s) for s in steps],
        start=np.concatenate([v.start for v in views]),
        end=np.concatenate([v.end for v in views]),
        name=np.array(codes, np.int64),
        names=list(names),
        is_comm=types != NodeType.COMP_NODE,
        micro_batch=joined("micro_batch", -1),
        group=_meetings(matched, offset, sum(sizes)),
        edges=Edges.concat(edges),
    )


def _meetings(matched: Matched, offset: dict[int, int], rows: int) -> I64:
    """For each row, the number of its collective or message; -1 for rows that do not communicate."""
    ranks, place = np.unique(matched.rank, return_inverse=True)
    first = np.array([offset[r] for r in ranks.tolist()], np.int64)
    row = first[place.reshape(-1)] + matched.row
    calls = np.arange(len(matched))
    key = np.where(matched.collective, -1 - matched.instance, calls)
    key = np.where(matched.paired, np.minimum(calls, matched.partner), key)
    out = np.full(rows, -1, np.int64)
    out[row] = np.unique(key, return_inverse=True)[1].reshape(-1)
    return out


# --- what a job's steps would take without delays and stragglers ------------------------------------
#
# Three times of every step: as measured; without launch delays, every operation starting when what it needs
# is there; and with every operation at the usual time of its type as well (the mean for compute, the median
# for communication). What one replica, stage, type or worker costs is the step with its operations as they
# were and all others as usual. Method and names follow "Understanding Stragglers in Large Model Training
# Using What-if Analysis" (arXiv 2505.05713).


Name = TypeVar("Name", int, str)

PIPELINE = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}
"""Sends and receives of one direction count as one type of operation."""


class SuspectRepair(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What repairing some suspects would gain; times are seconds of the mean step."""

    tori: float
    """The step with all operations as they were, without launch delays."""
    tideal: float
    """The step with all operations at their usual times."""
    trem: float
    """The step with only the suspects at their usual times."""
    tadd: float
    """The step with all but the suspects at their usual times."""
    rem: float
    """The share of the slowdown that the repair removes."""
    add: float
    """The share of the slowdown that the suspects alone would cause."""


class JobDelays(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What delays and stragglers cost a job: seconds by step, and ratios of mean steps."""

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
    last_stage: SuspectRepair
    worst_workers: SuspectRepair
    suspects: list[int]
    """The ranks of the worst workers."""

    def table(self) -> Table:
        """What each replica, stage and type of operation costs, worst first."""
        head = ("what", "slowdown")
        rows: list[tuple[str, float]] = [
            ("launch delays", round(self.launch_slowdown, 3)),
            ("stragglers", round(self.blocking_slowdown, 3)),
        ]
        for kind, slowdowns in (
            ("replica", self.blocking_decompose_by_dp_rank),
            ("stage", self.blocking_decompose_by_stage),
            ("", self.blocking_decompose_by_optype),
        ):
            rows += [(f"{kind} {name}".strip(), round(v, 3)) for name, v in slowdowns.items()]
        return Table.of("what slows the steps down", head, rows)


class Scenarios:
    """The job timed again under different assumptions about how long its operations take."""

    def __init__(self, rows: JobRows) -> None:
        self.rows = rows
        self.usual = _usual(rows)
        self.nodelay = rows.step_seconds(rows.own)
        self.ideal = rows.step_seconds(self.usual)

    def only(self, unchanged: Mask) -> F64:
        """Seconds by step with these operations as they were and all others at their usual times."""
        return self.rows.step_seconds(np.where(unchanged, self.rows.own, self.usual))

    def without(self, repaired: Mask) -> F64:
        """Seconds by step with these operations at their usual times and all others as they were."""
        return self.rows.step_seconds(np.where(repaired, self.usual, self.rows.own))

    def repair(self, suspects: Mask) -> SuspectRepair:
        """What repairing the suspects would gain."""
        tori, tideal = float(self.nodelay.mean()), float(self.ideal.mean())
        trem = float(self.without(suspects).mean())
        tadd = float(self.only(suspects).mean())
        lost = tori - tideal
        return SuspectRepair(
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
        own_ns = rows.own[mine]
        out[mine] = round(float(np.median(own_ns) if rows.is_comm[mine[0]] else own_ns.mean()))
    return out


def job_delays(rows: JobRows) -> JobDelays:
    """What delays and stragglers cost a job."""
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
        step_t_base=_by_step_name(rows, base),
        step_t_nodelay=_by_step_name(rows, nodelay),
        step_t_noblk=_by_step_name(rows, ideal),
        launch_slowdown=float(base.mean() / nodelay.mean()),
        blocking_slowdown=float(nodelay.mean() / ideal.mean()),
        launch_step_slowdown=_by_step_name(rows, base / nodelay),
        blocking_step_slowdown=_by_step_name(rows, nodelay / ideal),
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


def _means(step_seconds: dict[Name, F64], ideal: F64) -> dict[Name, float]:
    ratios = {name: float(seconds.mean() / ideal.mean()) for name, seconds in step_seconds.items()}
    return dict(sorted(ratios.items(), key=lambda item: -item[1]))


def _per_step(
    rows: JobRows, step_seconds: dict[Name, F64], ideal: F64
) -> dict[int, dict[Name, float]]:
    return {
        step: {name: float(seconds[i] / ideal[i]) for name, seconds in step_seconds.items()}
        for i, step in enumerate(rows.steps)
    }


def _by_step_name(rows: JobRows, values: F64) -> dict[int, float]:
    return {step: float(value) for step, value in zip(rows.steps, values, strict=True)}


def _worst(rows: JobRows, replicas: dict[int, float], stages: dict[int, float]) -> list[int]:
    """The worst 3 % of workers, at least one.

    A worker is as bad as the smaller of its replica's and its stage's slowdown.
    """
    ranks, first = np.unique(rows.rank, return_index=True)
    score = {
        int(rank): min(replicas[int(rows.dp_rank[i])], stages[int(rows.stage[i])])
        for rank, i in zip(ranks, first, strict=True)
    }
    count = -(-len(score) * 3 // 100)
    return sorted(score, key=lambda rank: (-score[rank], rank))[:count]


# --- who slows the job down, judged by what repairing them would gain -------------------------------

STRAGGLES = 1.1
"""Steps that take this many times the usual straggle (arXiv 2505.05713)."""
BLAMED = 0.5
"""The share of the slowdown that a suspect's repair must remove (arXiv 2505.05713)."""
TOGETHER, VARIED = 0.9, 0.05
"""If forward and backward of a micro-batch correlate by 0.9 and vary by 5 %, its length varies: machines that
become slow do not slow both down by the same share."""


def job_culprits(rows: JobRows, delays: JobDelays) -> list[Culprit]:
    """Culprits, worst first; none where the job does not straggle."""
    if delays.blocking_slowdown < STRAGGLES:
        return []
    culprits = [*_workers(rows, delays), *_last_stage(rows, delays), *_lengths(rows, delays)]
    return culprits or [*_worst_type(delays)]


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
            detail=f"repairing rank {rank} alone removes {_part(delays.m_w)} the slowdown; "
            + _without(delays, delays.worst_workers.trem),
        )


def _part(share: float) -> str:
    """`45 % of`; without what is slower than its like, a step can be shorter than with all alike."""
    return f"{share:.0%} of" if share < 1 else "all of"


def _last_stage(rows: JobRows, delays: JobDelays) -> Iterator[Culprit]:
    last = int(rows.stage.max())
    # A slow worker of the last stage makes all of it look slow.
    single_worker = (
        delays.m_w >= BLAMED and (rows.stage[np.isin(rows.rank, delays.suspects)] == last).any()
    )
    if delays.m_s < BLAMED or single_worker:
        return
    mine = ~rows.is_comm & (rows.stage == last)
    elsewhere = ~rows.is_comm & (rows.stage != last)
    yield Culprit(
        kind="slow-stage",
        stage=last,
        since_step=rows.steps[0],
        factor=_ratio(rows, mine, elsewhere),
        detail=f"stage {last} alone explains {_part(delays.m_s)} the slowdown: give it fewer layers; "
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
    """The type of operation that costs most, for a job in which no rank or stage stands out."""
    name, ratio = next(iter(delays.blocking_decompose_by_optype.items()))
    kind = "garbage-collection" if name == "gc" else "slow-operation"
    yield Culprit(
        kind=kind,  # type: ignore[arg-type]
        collective=name,
        factor=ratio,
        detail=f"no rank or stage stands out; {name} alone makes steps {ratio:.2f} times as long",
    )


def _compute(rows: JobRows, name: str, without: list[int]) -> F64:
    """Durations of a type of operation over the mean of their rank, by rank, step and micro-batch."""
    if name not in rows.names:
        return np.zeros(0)
    mine = np.flatnonzero((rows.name == rows.names.index(name)) & ~np.isin(rows.rank, without))
    order = np.lexsort((rows.start[mine], rows.micro_batch[mine], rows.step[mine], rows.rank[mine]))
    mine = mine[order]
    _, rank_code = np.unique(rows.rank[mine], return_inverse=True)
    own_ns = rows.own[mine].astype(np.float64)
    mean = np.bincount(rank_code, own_ns) / np.bincount(rank_code)
    return own_ns / mean[rank_code]


def _compute_by_step(rows: JobRows, rank: int) -> F64:
    """How many times as long as the median rank a rank computes, by step."""
    compute = ~rows.is_comm
    ranks = np.unique(rows.rank)
    sums = np.zeros((len(ranks), len(rows.steps)))
    place: I64 = np.searchsorted(ranks, rows.rank[compute])
    np.add.at(sums, (place, rows.step[compute]), rows.own[compute])
    mine: F64 = sums[int(np.searchsorted(ranks, rank))]
    return mine / np.maximum(np.median(sums, axis=0), 1.0)


def _ratio(rows: JobRows, mine: Mask, elsewhere: Mask) -> float:
    own_ns = rows.own.astype(np.float64)
    a, b = own_ns[mine].mean(), own_ns[elsewhere].mean()
    return float(a / b) if b else 1.0


def _without(delays: JobDelays, seconds: float) -> str:
    return f"the step would be {seconds:.3f} s instead of {delays.worst_workers.tori:.3f} s"
