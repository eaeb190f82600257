"""What a campaign comes to: means over many histories, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from chakrakit.campaigns.history import HistoryOutcome
from chakrakit.results import Bars, Result

HOUR, DAY = 3600.0, 86400.0


class Spread(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A figure over all histories."""

    mean: float
    p5: float
    p95: float
    """5 and 95 of 100 histories are below these."""
    ci95: tuple[float, float]
    """Where the mean lies with 95 % confidence, were there many more histories."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
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


class Change(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What one change would give: the same histories, with the change."""

    change: str
    days: float
    """How long the campaign would take."""
    effective_ratio: float
    days_saved: float
    ci95: tuple[float, float]
    """Of the days saved."""


class CampaignResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `chakra campaign`."""

    name: str
    histories: int
    seed: int
    days: Spread
    effective_ratio: Spread
    """Time of useful steps at the healthy job's speed, over all time."""
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
    price: float | None
    sensitivity: list[Change]
    """Best first."""
    notes: list[str]

    def picture(self) -> Bars:
        """What the time is lost to."""
        hours = msgspec.structs.asdict(self.lost_hours)
        rows = [(cause, value, f"{value:,.1f} h") for cause, value in hours.items()]
        title = f"{self.name}: hours lost of {self.days.mean:,.1f} days"
        return Bars(title, sorted(rows, key=lambda row: -row[1]))


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
