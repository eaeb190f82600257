"""Runs many histories of one job, here or on workers, and sums them up; tries what changes would give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.campaigns.chains import retry_chain
from chakrakit.campaigns.checkpoints import NEVER
from chakrakit.campaigns.history import HistoryOutcome, JobHistory
from chakrakit.campaigns.job import CampaignJob, read_job
from chakrakit.campaigns.plan import CampaignPlan
from chakrakit.campaigns.result import (
    DAY,
    HOUR,
    CampaignChange,
    CampaignResult,
    HistorySpread,
    RetryFigures,
    days_interval,
    mean_failures,
    mean_lost,
)
from chakrakit.errors import ConfigError
from chakrakit.parallel import Workers, check_engine, spread

# --- what a change would give: more spares, faster detection and restarts, other intervals -------


HISTORIES = 100
"""Histories run again for every change, with the seeds of the first ones, so that only the change differs."""


def sensitivity(
    job: CampaignJob, outcomes: Sequence[HistoryOutcome], seed: int
) -> list[CampaignChange]:
    """Every change that applies, the one that saves most first; nothing where nothing fails."""
    plan = job.plan
    if not (plan.processes or plan.logged or plan.pool or plan.market):
        return []
    changed = [_change(text, plan, outcomes, seed) for text, plan in changes(job)]
    return sorted(changed, key=lambda change: -change.days_saved)


def changes(job: CampaignJob) -> Iterator[tuple[str, CampaignPlan]]:
    """The changes that are tried, in words and as plans."""
    plan, recovery = job.plan, job.plan.recovery
    yield "one more spare", _with(plan, spares=plan.spares + 1)
    for words, names in (("detection", ("detection_seconds",)), ("restarts", recovery.restarting)):
        halves = {name: getattr(recovery, name) / 2 for name in names}
        if any(halves.values()):
            faster = msgspec.structs.replace(recovery, **halves)
            yield f"{words} twice as fast", _with(plan, recovery=faster)
    if plan.market:
        yield "nodes that are never taken away", _with(plan, market=None)
    if plan.pool and (plan.pool.slow_share or plan.pool.onsets_per_day):
        healthy = replace(plan.pool, slow_share=0.0, onsets_per_day=0.0)
        yield "no slow nodes", _with(plan, pool=healthy)
    if plan.every != NEVER:
        if plan.every > 1:
            shorter = plan.every // 2
            yield f"a checkpoint every {shorter:,} steps", _with(plan, every=shorter)
        longer = plan.every * 2
        yield f"a checkpoint every {longer:,} steps", _with(plan, every=longer)


def _with(plan: CampaignPlan, **fields: object) -> CampaignPlan:
    return msgspec.structs.replace(plan, **fields)


def _change(
    text: str, plan: CampaignPlan, outcomes: Sequence[HistoryOutcome], seed: int
) -> CampaignChange:
    before = outcomes[:HISTORIES]
    after = [JobHistory(plan, f"{seed}/{number}").run() for number in range(len(before))]
    days = [_days(a, b, plan) for a, b in zip(after, before, strict=True)]
    saved = HistorySpread.of([b.seconds / DAY - d for b, d in zip(before, days, strict=True)])
    return CampaignChange(
        change=text,
        days=HistorySpread.of(days).mean,
        effective_share=_useful_days(outcomes) / (_mean_days(outcomes) - saved.mean),
        effective_ratio=HistorySpread.of([o.useful / o.seconds for o in after]).mean,
        days_saved=saved.mean,
        ci95=saved.ci95,
    )


def _useful_days(outcomes: Sequence[HistoryOutcome]) -> float:
    """Mean days of useful steps at the healthy job's speed."""
    return math.fsum(o.useful for o in outcomes) / len(outcomes) / DAY


def _mean_days(outcomes: Sequence[HistoryOutcome]) -> float:
    return math.fsum(o.seconds for o in outcomes) / len(outcomes) / DAY


def _days(after: HistoryOutcome, before: HistoryOutcome, plan: CampaignPlan) -> float:
    """How long the same work takes; a job of a given time does more in it instead."""
    if plan.steps is None and after.useful:
        return after.seconds / DAY * before.useful / after.useful
    return after.seconds / DAY


PIECE = 250
"""Histories that one worker runs before it reports: enough that sending them back costs little."""


MANY = 1000
"""With fewer histories than this, starting workers takes longer than running them here."""
MOST = 1_000_000
"""Outcomes are kept until the last is there; a mean of so many is sure to a thousandth of their spread."""


class HistoryRange(msgspec.Struct, frozen=True):
    """Some histories of a plan."""

    plan: CampaignPlan
    seed: int
    first: int
    last: int


def campaign(
    job: str | Path | CampaignJob,
    *,
    histories: int = 100,
    seed: int = 0,
    workers: Workers | None = None,
    changes: bool = True,
) -> CampaignResult:
    """Many random histories of a job, and with `changes` what one more spare and so on would give."""
    ready_job = job if isinstance(job, CampaignJob) else read_job(job)
    if not 1 <= histories <= MOST:
        raise ConfigError(f"histories is {histories:,}; it must be from 1 to {MOST:,}")
    outcomes = run_histories(ready_job.plan, histories, seed, workers)
    tried = sensitivity(ready_job, outcomes, seed) if changes else []
    return _result(ready_job, outcomes, seed, tried)


def workers_for(histories: int, engine: str | None, jobs: int | None) -> Workers | None:
    """Workers as asked for; without a word, all cores for many histories and this process for few."""
    if engine is None and jobs is None and histories < MANY:
        return None
    workers = Workers(engine or "local", jobs)
    check_engine(workers.engine)
    return workers if engine or jobs != 1 else None


def run_histories(
    plan: CampaignPlan, count: int, seed: int, workers: Workers | None = None
) -> list[HistoryOutcome]:
    """The outcomes of histories 0 … count − 1."""
    pieces = [
        HistoryRange(plan, seed, first, min(first + PIECE, count))
        for first in range(0, count, PIECE)
    ]
    outcomes = [outcome for part in spread(_run_piece, pieces, workers) for outcome in part]
    _check_finished(plan, outcomes)
    return outcomes


def _run_piece(piece: HistoryRange) -> list[HistoryOutcome]:
    return list(_histories(piece))


def _histories(piece: HistoryRange) -> Iterator[HistoryOutcome]:
    for number in range(piece.first, piece.last):
        outcome = JobHistory(piece.plan, f"{piece.seed}/{number}").run()
        yield outcome
        if outcome.given_up:  # the others would not do better, and the campaign is refused
            return


def _check_finished(plan: CampaignPlan, outcomes: Sequence[HistoryOutcome]) -> None:
    lost = [o for o in outcomes if o.given_up]
    if lost:
        first = lost[0]
        failures = sum(first.failures.values())
        goal = "" if plan.steps is None else f" of {plan.steps:,}"
        raise ConfigError(
            f"{len(lost)} of {len(outcomes)} histories are given up: after {failures:,} failures in "
            f"{first.seconds / DAY:,.0f} days {first.steps:,.0f}{goal} steps are done; checkpoint more "
            "often, restart faster, or ask for fewer steps or days"
        )


def _result(
    job: CampaignJob, outcomes: Sequence[HistoryOutcome], seed: int, tried: list[CampaignChange]
) -> CampaignResult:
    plan = job.plan
    days = HistorySpread.of([o.seconds / DAY for o in outcomes])
    ratio = HistorySpread.of([o.useful / o.seconds for o in outcomes])
    lost = mean_lost(outcomes)
    stopped = lost.detection + lost.restart + lost.waiting + lost.preempted
    steps = math.fsum(o.steps for o in outcomes) / len(outcomes)
    causes = mean_failures(outcomes)
    per_day = steps / days.mean
    mtbf = job.situation.mtbf_seconds
    return CampaignResult(
        name=job.name,
        histories=len(outcomes),
        seed=seed,
        days=days,
        days_interval=_days_interval(job, days, ratio),
        effective_share=_useful_days(outcomes) / days.mean,
        effective_ratio=ratio,
        goodput=ratio.mean * plan.nodes / (plan.nodes + plan.spares),
        availability=1 - stopped / (days.mean * 24),
        failures=math.fsum(causes.values()),
        failures_by_cause=causes,
        restarts=sum(o.restarts for o in outcomes) / len(outcomes),
        slowdowns=sum(o.slowdowns for o in outcomes) / len(outcomes),
        lost_hours=lost,
        steps=steps,
        steps_per_day=per_day,
        tokens_per_day=None if job.tokens_per_step is None else per_day * job.tokens_per_step,
        step_seconds=plan.step_seconds,
        checkpoint_interval_steps=None if plan.every == NEVER else plan.every,
        checkpoints=sum(o.checkpoints for o in outcomes) / len(outcomes),
        mtbf_hours=None if math.isinf(mtbf) or plan.logged else mtbf / HOUR,
        energy_kwh=_energy(job, days.mean * 24, stopped),
        price=_price(job, days.mean * 24, outcomes),
        preemptions=sum(o.preemptions for o in outcomes) / len(outcomes),
        excluded=sum(o.excluded for o in outcomes) / len(outcomes),
        excluded_healthy=sum(o.excluded_healthy for o in outcomes) / len(outcomes),
        node_hour_price=_paid_per_hour(job, outcomes),
        retries=_retries(job, len(outcomes), seed),
        sensitivity=tried,
        sensitivity_histories=min(len(outcomes), HISTORIES) if tried else 0,
        notes=job.notes,
    )


def _days_interval(
    job: CampaignJob, days: HistorySpread, ratio: HistorySpread
) -> tuple[float, float] | None:
    if job.step_interval is None or job.plan.steps is None:
        return None
    return days_interval(days, ratio.mean, job.plan.step_seconds, job.step_interval)


def _energy(job: CampaignJob, hours: float, stopped: float) -> float | None:
    """Nodes draw their power while the job runs; spares, and all while it stands, draw idle power."""
    busy, idle = job.costs.node_watts, job.costs.idle_node_watts
    if busy is None:
        return None
    rest = busy if idle is None else idle
    plan = job.plan
    watt_hours = (
        plan.nodes * (busy * (hours - stopped) + rest * stopped) + plan.spares * rest * hours
    )
    return (job.costs.pue or 1.0) * watt_hours / 1000


def _retries(job: CampaignJob, chains: int, seed: int) -> RetryFigures | None:
    """As many chains of retries as there are histories."""
    if job.retries is None:
        return None
    ends = [retry_chain(job.retries, np.random.default_rng((seed, n))) for n in range(chains)]
    return RetryFigures(
        success=HistorySpread.of([float(c.success) for c in ends]),
        attempts=sum(c.attempts for c in ends) / chains,
        hours=sum(c.hours for c in ends) / chains,
        excluded=sum(len(c.excluded) for c in ends) / chains,
    )


def _paid_per_hour(job: CampaignJob, outcomes: Sequence[HistoryOutcome]) -> float | None:
    """Over the hours in which nodes were held."""
    hours = math.fsum(o.seconds - o.preempted for o in outcomes) / HOUR
    return math.fsum(o.paid for o in outcomes) / hours if job.plan.market and hours else None


def _price(job: CampaignJob, hours: float, outcomes: Sequence[HistoryOutcome]) -> float | None:
    if job.plan.market:
        paid = math.fsum(o.paid for o in outcomes) / len(outcomes)
        return paid * (job.plan.nodes + job.plan.spares)
    price = job.costs.node_hour_price
    return None if price is None else price * hours * (job.plan.nodes + job.plan.spares)
