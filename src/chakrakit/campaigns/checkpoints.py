"""Checkpoint policies: how often, at what price, and which failures a copy survives.

A policy is a small frozen class whose fields are its options in the job file. It says where copies go
(`tiers`) and how many steps lie between the most frequent ones (`every`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, ClassVar, Literal

import msgspec

from chakrakit.campaigns.failures import SCOPES, Scope
from chakrakit.configuration import Count, NotNegative
from chakrakit.errors import ConfigError

# --- numbers with bounds, for fields of a job file ----------------------------------------------


Nodes = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Spares = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
AtLeastOne = Annotated[float, msgspec.Meta(ge=1)]

LONGEST_PATTERN = 4096
"""The longest pattern of tiers and differences before it repeats; the engine searches it at every event."""
Differences = Annotated[int, msgspec.Meta(ge=0, lt=LONGEST_PATTERN)]


# --- formulas for the interval between checkpoints ----------------------------------------------
#
# C is the time of a checkpoint, τ the interval between two, M the mean time between failures.
# J. W. Young, CACM 17 (1974); J. T. Daly, Future Generation Computer Systems 22 (2006).


def young_interval(checkpoint: float, mtbf: float) -> float:
    """τ = √(2·C·M)."""
    return math.sqrt(2 * checkpoint * mtbf) if checkpoint > 0 else 0.0


def daly_interval(checkpoint: float, mtbf: float) -> float:
    """τ = √(2·C·M)·(1 + ⅓·√(C/2M) + ⅑·C/2M) − C, and M where a checkpoint takes 2·M or more."""
    if math.isinf(mtbf):
        return mtbf
    if checkpoint >= 2 * mtbf:
        return mtbf
    part = checkpoint / (2 * mtbf)
    return young_interval(checkpoint, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - checkpoint


# --- the clock of steps and checkpoints ---------------------------------------------------------


NEVER = 1 << 60
"""So many steps between checkpoints that none is ever taken."""


class Cadence:
    """Checkpoint i follows step i × `every` and stops the job for `stalls[(i - 1) % len(stalls)]` seconds.

    The *clock* counts the seconds an undisturbed job has run: steps and stalls. Progress between two
    events is therefore an addition, whatever number of checkpoints lies between them.
    """

    def __init__(self, every: int = NEVER, stalls: tuple[float, ...] = (0.0,)) -> None:
        self.every = every
        self.period = len(stalls)
        self._sums = [0.0, *accumulate(stalls)]

    def stalled(self, count: int) -> float:
        """Seconds that the first `count` checkpoints stop the job."""
        rounds, rest = divmod(count, self.period)
        return rounds * self._sums[-1] + self._sums[rest]

    def at(self, count: int, step: float) -> float:
        """The clock when checkpoint `count` is complete, with steps of `step` seconds."""
        return count * self.every * step + self.stalled(count)

    def before(self, steps: int) -> int:
        """How many checkpoints a job of so many steps takes before its last step ends."""
        return max(-(-steps // self.every) - 1, 0)

    def end(self, steps: int, step: float) -> float:
        """The clock when a job of so many steps ends; nothing follows that needs a checkpoint."""
        return steps * step + self.stalled(self.before(steps))

    def complete(self, clock: float, step: float) -> int:
        """How many checkpoints are complete at a clock."""
        if self.period == 1:
            return max(int(clock / (self.every * step + self._sums[1])), 0)
        rounds, rest = divmod(max(clock, 0.0), self.at(self.period, step))
        marks = [self.at(i, step) for i in range(1, self.period + 1)]
        return int(rounds) * self.period + bisect_right(marks, rest)

    def position(self, clock: float, step: float) -> tuple[int, float, float]:
        """Complete checkpoints, steps since the last of them, and seconds into the one being taken."""
        count = self.complete(clock, step)
        since = max(clock - self.at(count, step), 0.0)
        run = self.every * step
        if since <= run:
            return count, since / step, 0.0
        return count, float(self.every), since - run

    def stops(self, begin: float, end: float, step: float) -> Iterator[tuple[float, float]]:
        """When the job stops for checkpoints between two moments of the clock; the last may be cut."""
        count = self.complete(begin, step)
        while (start := self.at(count, step) + self.every * step) < end:
            count += 1
            stop = self.at(count, step)
            if stop > max(start, begin):
                yield max(start, begin), min(stop, end)


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """One place that copies go to, as the engine needs it."""

    multiple: int = 1
    """Every so many checkpoints, one is kept here."""
    stalls: tuple[float, ...]
    """Seconds that the job stops for the first copy, the second, …; then from the beginning again."""
    write_seconds: NotNegative = 0.0
    """From the end of the stall until the copy can be restored."""
    survives: Scope = "cluster"
    """The widest failure that leaves the copies whole."""
    restore_seconds: NotNegative = 0.0
    apply_seconds: NotNegative = 0.0
    """Added for every difference between a copy and its base."""

    def outlives(self, scope: Scope) -> bool:
        """Whether copies are still there after a failure."""
        return SCOPES.index(scope) <= SCOPES.index(self.survives)

    def restore(self, count: int) -> float:
        """Seconds to load checkpoint `count`; the beginning of the job needs no loading."""
        if not count:
            return 0.0
        return (
            self.restore_seconds
            + (count // self.multiple - 1) % len(self.stalls) * self.apply_seconds
        )


class Situation(msgspec.Struct, frozen=True):
    """What a policy may look at when it chooses."""

    step_seconds: float
    mtbf_seconds: float
    """Mean time between failures of the whole job; infinite without failures."""


class CheckpointPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all policies have in common. Sizes and stores are turned into seconds before this."""

    spelling: ClassVar[str] = ""

    def every(self, situation: Situation) -> int:
        """Steps between checkpoints."""
        raise NotImplementedError

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """Where copies go."""
        raise NotImplementedError


class Interval(CheckpointPolicy, frozen=True, kw_only=True):
    """Every so many steps the job stops until the copy is written."""

    spelling: ClassVar[str] = "interval"

    interval_steps: Count
    seconds: NotNegative
    restore_seconds: NotNegative = 0.0

    def every(self, situation: Situation) -> int:
        """As given."""
        return self.interval_steps

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """One place, which survives everything."""
        return (Tier(stalls=(self.seconds,), restore_seconds=self.restore_seconds),)


class Young(CheckpointPolicy, frozen=True, kw_only=True):
    """At Young's optimum √(2·C·M), with C = `seconds` and the job's mean time between failures M."""

    spelling: ClassVar[str] = "young"

    seconds: NotNegative
    restore_seconds: NotNegative = 0.0

    def every(self, situation: Situation) -> int:
        """The optimum, in whole steps."""
        return whole_steps(young_interval(self.seconds, situation.mtbf_seconds), situation)

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """One place, which survives everything."""
        return (Tier(stalls=(self.seconds,), restore_seconds=self.restore_seconds),)


class Daly(Young, frozen=True, kw_only=True):
    """At Daly's optimum, which corrects Young's where checkpoints are long or failures frequent."""

    spelling: ClassVar[str] = "daly"

    def every(self, situation: Situation) -> int:
        """The optimum, in whole steps."""
        return whole_steps(daly_interval(self.seconds, situation.mtbf_seconds), situation)


class Asynchronous(CheckpointPolicy, frozen=True, kw_only=True):
    """The job stops for a snapshot only; the copy counts once it is written in the background."""

    spelling: ClassVar[str] = "asynchronous"

    interval_steps: Count
    seconds: NotNegative
    """Of the write in the background."""
    snapshot_seconds: NotNegative = 0.0
    restore_seconds: NotNegative = 0.0

    def every(self, situation: Situation) -> int:
        """As given."""
        return self.interval_steps

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """A snapshot waits until the previous one is written."""
        room = self.interval_steps * situation.step_seconds
        stall = self.snapshot_seconds + max(0.0, self.seconds - room)
        return (
            Tier(stalls=(stall,), write_seconds=self.seconds, restore_seconds=self.restore_seconds),
        )


class TierText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tier in the job file."""

    name: str = ""
    interval_steps: Count
    seconds: NotNegative
    write_seconds: NotNegative = 0.0
    restore_seconds: NotNegative = 0.0
    survives: Literal["process", "node", "rack", "cluster"] = "cluster"


class Tiered(CheckpointPolicy, frozen=True, kw_only=True):
    """Frequent copies nearby, rare ones far away; the newest that survived a failure is restored."""

    spelling: ClassVar[str] = "tiered"

    tiers_: list[TierText] = msgspec.field(name="tiers")

    def every(self, situation: Situation) -> int:
        """The interval of the most frequent tier."""
        return min(tier.interval_steps for tier in self.tiers_)

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """As given, the interval of each as a multiple of the shortest."""
        every = self.every(situation)
        return tuple(
            Tier(
                multiple=tier.interval_steps // every,
                stalls=(tier.seconds,),
                write_seconds=tier.write_seconds,
                survives=tier.survives,
                restore_seconds=tier.restore_seconds,
            )
            for tier in self.tiers_
        )


class Differential(CheckpointPolicy, frozen=True, kw_only=True):
    """A full copy, then `differences` small ones that hold what changed; a restore applies them."""

    spelling: ClassVar[str] = "differential"

    interval_steps: Count
    seconds: NotNegative
    """Of a full copy."""
    difference_seconds: NotNegative
    differences: Differences
    restore_seconds: NotNegative = 0.0
    apply_seconds: NotNegative = 0.0

    def every(self, situation: Situation) -> int:
        """As given."""
        return self.interval_steps

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """One place, the first of every `differences` + 1 copies a full one."""
        stalls = (self.seconds, *[self.difference_seconds] * self.differences)
        return (
            Tier(
                stalls=stalls,
                restore_seconds=self.restore_seconds,
                apply_seconds=self.apply_seconds,
            ),
        )


class NoCheckpoints(CheckpointPolicy, frozen=True, kw_only=True):
    """None at all: a failure costs everything done so far."""

    spelling: ClassVar[str] = "none"

    def every(self, situation: Situation) -> int:
        """Never."""
        return Cadence().every

    def tiers(self, situation: Situation) -> tuple[Tier, ...]:
        """A place that nothing ever comes to."""
        return (Tier(stalls=(0.0,)),)


CHECKPOINT_POLICIES: dict[str, type[CheckpointPolicy]] = {
    policy.spelling: policy
    for policy in (Interval, Young, Daly, Asynchronous, Tiered, Differential, NoCheckpoints)
}


def whole_steps(seconds: float, situation: Situation) -> int:
    """An interval in steps, at least one; never where nothing fails."""
    if math.isinf(seconds):
        return Cadence().every
    return max(round(seconds / situation.step_seconds), 1)


def cadence_of(every: int, tiers: tuple[Tier, ...]) -> Cadence:
    """All tiers' stalls as one pattern; a checkpoint that several tiers take stops the job for each."""
    period = math.lcm(*(tier.multiple * len(tier.stalls) for tier in tiers))
    if period > LONGEST_PATTERN:
        raise ConfigError(
            f"the tiers come together every {period:,} checkpoints; {LONGEST_PATTERN:,} is the most: let "
            "longer intervals be small multiples of the shorter ones"
        )
    stalls = [0.0] * period
    for tier in tiers:
        for n, i in enumerate(range(tier.multiple - 1, period, tier.multiple)):
            stalls[i] += tier.stalls[n % len(tier.stalls)]
    return Cadence(every, tuple(stalls))
