"""What one change would give: more spares, faster detection and restarts, other intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chakrakit.campaigns.engine import NEVER, History, Outcome, Plan
from chakrakit.campaigns.job import Job
from chakrakit.campaigns.results.result import DAY, Change, Spread

HISTORIES = 100
"""Run again for every change, with the chance of the first ones, so that only the change differs."""


def sensitivity(job: Job, outcomes: Sequence[Outcome], seed: int) -> list[Change]:
    """Every change that applies, the one that saves most first; nothing where nothing fails."""
    if not job.plan.processes and not job.plan.logged:
        return []
    before = outcomes[:HISTORIES]
    found = [_change(text, plan, before, seed) for text, plan in changes(job)]
    return sorted(found, key=lambda change: -change.days_saved)


def changes(job: Job) -> Iterator[tuple[str, Plan]]:
    """The changes that are tried, in words and as plans."""
    plan, recovery = job.plan, job.plan.recovery
    yield "one more spare", _with(plan, spares=plan.spares + 1)
    for name, words in (("detection_seconds", "detection"), ("restart_seconds", "restarts")):
        seconds = getattr(recovery, name)
        if seconds:
            faster = msgspec.structs.replace(recovery, **{name: seconds / 2})
            yield f"{words} twice as fast", _with(plan, recovery=faster)
    if plan.every != NEVER:
        if plan.every > 1:
            shorter = plan.every // 2
            yield f"a checkpoint every {shorter:,} steps", _with(plan, every=shorter)
        longer = plan.every * 2
        yield f"a checkpoint every {longer:,} steps", _with(plan, every=longer)


def _with(plan: Plan, **fields: object) -> Plan:
    return msgspec.structs.replace(plan, **fields)


def _change(text: str, plan: Plan, before: Sequence[Outcome], seed: int) -> Change:
    after = [History(plan, f"{seed}/{number}").run() for number in range(len(before))]
    days = [_days(a, b, plan) for a, b in zip(after, before, strict=True)]
    saved = Spread.of([b.seconds / DAY - d for b, d in zip(before, days, strict=True)])
    return Change(
        change=text,
        days=Spread.of(days).mean,
        effective_ratio=Spread.of([o.useful / o.seconds for o in after]).mean,
        days_saved=saved.mean,
        ci95=saved.ci95,
    )


def _days(after: Outcome, before: Outcome, plan: Plan) -> float:
    """How long the same work takes; a job of a given time does more in it instead."""
    if plan.steps is None and after.useful:
        return after.seconds / DAY * before.useful / after.useful
    return after.seconds / DAY
