"""What a campaign comes to: means over many histories, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from chakrakit.campaigns.history import HistoryOutcome
from chakrakit.results import Bars, Result, three_digits

HOUR, DAY = 3600.0, 86400.0


class HistorySpread(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A figure over all histories."""

    mean: float
    p5: float
    p95: float
    """5 and 95 of 100 histories are below these."""
    ci95: tuple[float, float]
    """Where the mean lies with 95 % confidence, were there many more histories."""

    @classmethod
    def of(cls, values: Sequence[float]) -> HistorySpread:
        """Of one figure per history."""
        array = np.asarray(values, np.float64)
        mean = float(array.mean())
        if not np.ptp(array):
            mean = float(array[0])
        error = 1.96 * float(array.std(ddof=1)) / math.sqrt(len(array)) if len(array) > 1 else 0.0
        low, high = np.percentile(array, [5, 95])
        return cls(mean=mean, p5=float(low), p95=float(high), ci95=(mean - error, mean + error))


class LostHours(Result, msgspec.Struct, frozen=True, kw_only=True):
    """Mean hours that were not steps of use. With these, the campaign lasts longer than its steps."""

    rework: float
    """Steps done again after a failure."""
    detection: float
    restart: float
    checkpoint: float
    degraded: float
    """What slow or missing nodes added to steps."""
    waiting: float
    """For repairs, when there were not enough spares."""
    preempted: float = 0.0
    """While the price of nodes was above the bid."""


class RetryFigures(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What comes of sessions that are started again until one lasts."""

    success: HistorySpread
    """The share of chains in which a session lasted."""
    attempts: float
    hours: float
    excluded: float
    """Mean number of nodes that were found and left out."""

    @property
    def share_that_lasts(self) -> str:
        """How many chains end with a session that lasts, and how sure that is."""
        low, high = self.success.ci95
        return f"{self.success.mean:.1%} of chains last ({max(low, 0):.1%} to {min(high, 1):.1%})"

    @property
    def took(self) -> str:
        """What a chain took, as a sentence says it."""
        return (
            f"a chain has {self.attempts:.2f} attempts in {self.hours:.2f} hours, and "
            f"{self.excluded:.2f} nodes are excluded in it"
        )


class CampaignChange(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What one change would give: the same histories, with the change."""

    change: str
    days: float
    """How long the campaign would take."""
    effective_share: float
    """What of the days would be of use: the same work in other days."""
    effective_ratio: float
    """The mean of the histories' own ratios."""
    days_saved: float
    ci95: tuple[float, float]
    """Of the days saved."""


class CampaignResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `chakra campaign`."""

    name: str
    histories: int
    seed: int
    days: HistorySpread
    days_interval: tuple[float, float] | None = None
    """Where 90 of 100 real campaigns should lie: by their failures, and by how far the predicted step may be
    off. None where the step was given or measured, or where the job runs for a given time."""
    effective_share: float
    """What of the mean days was of use; the rest is `lost_hours`."""
    effective_ratio: HistorySpread
    """Of each history the time of useful steps at the healthy job's speed, over all time. In the mean of
    these ratios short histories count as much as long ones; `effective_share` is the ratio of the means."""
    goodput: float
    """The same in nodes: useful node-hours over all node-hours, those of spares included."""
    availability: float
    """The share of time in which the job ran."""
    failures: float
    """Mean number of failures that stopped the job."""
    failures_by_cause: dict[str, float]
    restarts: float
    """Mean number of attempts to start again."""
    slowdowns: float
    """Mean number of times a node became slow."""
    lost_hours: LostHours
    steps: float
    """Mean number of steps done, where the job runs for a given time; else what it had to do."""
    steps_per_day: float
    tokens_per_day: float | None
    step_seconds: float
    checkpoint_interval_steps: int | None
    """As given or chosen; None without checkpoints."""
    checkpoints: float
    mtbf_hours: float | None
    """Mean time between failures of the job as described; None where nothing fails or a log says when."""
    energy_kwh: float | None
    """With servers and building as far as `costs` or the machine says what they draw; notes say which."""
    price: float | None
    preemptions: float = 0.0
    """Mean number of times that the nodes were taken away."""
    excluded: float = 0.0
    """Mean number of nodes that measured slow and were not used any more."""
    excluded_healthy: float = 0.0
    """How many of them were not slow: measurements scatter."""
    node_hour_price: float | None = None
    """What a node-hour cost on average, where prices move."""
    retries: RetryFigures | None = None
    sensitivity: list[CampaignChange]
    """Best first."""
    sensitivity_histories: int = 0
    """The first so many histories are run again with each change, and compared with themselves without it."""
    notes: list[str]

    @property
    def excluded_nodes(self) -> str:
        """How many nodes measured slow, and how many of those were not."""
        healthy = f" ({self.excluded_healthy:,.1f} of them healthy)" * bool(self.excluded_healthy)
        return f"{self.excluded:,.1f} nodes measured slow{healthy}"

    @property
    def what_cost_the_days(self) -> str:
        """What most of the lost time went to, and which of the changes that were tried gives most back."""
        hours = msgspec.structs.asdict(self.lost_hours)
        lost = {name: value for name, value in hours.items() if value > 0}
        total = math.fsum(lost.values())
        if not total:
            return "nothing was lost: all of the time was steps of use"
        order = sorted(lost, key=lambda name: -lost[name])[:3]
        parts = ", ".join(f"{name} {lost[name] / total:.0%}" for name in order)
        best = self.sensitivity[0] if self.sensitivity else None
        remedy = "; nothing that was tried saves anything"
        if best is not None and best.ci95[0] > 0:
            remedy = f"; {best.change} saves {best.days_saved:,.3g} days ({_span(best.ci95)})"
        return f"{total / 24:,.3g} of {self.days.mean:,.3g} days were lost: {parts}{remedy}"

    def picture(self) -> Bars:
        """What the time is lost to."""
        hours = msgspec.structs.asdict(self.lost_hours)
        rows = [(cause, value, f"{value:,.1f} h") for cause, value in hours.items()]
        title = f"{self.name}: hours lost of {self.days.mean:,.1f} days"
        return Bars(title, sorted(rows, key=lambda row: -row[1]))


def _span(bounds: tuple[float, float]) -> str:
    return "–".join(three_digits(bound) for bound in bounds)


def days_interval(
    days: HistorySpread, useful_share: float, seconds: float, step: tuple[float, float]
) -> tuple[float, float]:
    """The days of a campaign whose predicted step may be off: only steps of use change then."""
    useful = days.mean * useful_share
    below = math.hypot(days.mean - days.p5, useful * max(1 - step[0] / seconds, 0.0))
    above = math.hypot(days.p95 - days.mean, useful * max(step[1] / seconds - 1, 0.0))
    return days.mean - below, days.mean + above


def mean_lost(outcomes: Sequence[HistoryOutcome]) -> LostHours:
    """Mean hours by cause."""
    names = LostHours.__struct_fields__
    return LostHours(**{name: _mean([getattr(o, name) for o in outcomes]) / HOUR for name in names})


def mean_failures(outcomes: Sequence[HistoryOutcome]) -> dict[str, float]:
    """Mean number of failures by cause, most frequent first."""
    total: dict[str, int] = {}
    for outcome in outcomes:
        for name, count in outcome.failures.items():
            total[name] = total.get(name, 0) + count
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return {name: count / len(outcomes) for name, count in ordered}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
