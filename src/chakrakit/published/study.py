"""Study: a published idea, what it is held against, and what was predicted before the first run.

A study is one file that ends in `STUDY = Study(...)`. It says what to measure; how sides are tuned and
judged, and what the verdict is, is the same for all and is none of its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError

Case = Mapping[str, Any]
"""What is given: a machine, a size, a load. Plain values by name."""
Setting = Mapping[str, Any]
"""What a side may choose. Plain values by name."""
Figures = Mapping[str, float]
"""What was measured, by name; infinity for what cannot be."""
Strength = Literal["strong", "direction", "bound", "side cost"]
"""How much a simulation can say: sign, regime and size; sign and regime; a limit; what is paid beside."""

GAIN = "gain"
JUDGED_SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = (100, 101)


@dataclass(frozen=True)
class Claim:
    """A figure that was published, from `low` to `high`.

    `figure` is what it is compared with: `gain` (over the best tuned comparator), `gain over SIDE`, or a
    figure that `measure` gives for the idea. Where an ordering was published without a figure, `low` is 1.02:
    a gain at all. A claim that is `calibrated` went into the set-up, and one that is `not simulable` is
    listed and never judged. A figure that is `ours` was not published: it is judged, and never enough for
    `holds`. In a study that gives a bound, figures are the most that is possible.
    """

    text: str
    low: float
    high: float
    kind: Literal["derived", "calibrated", "not simulable", "ours"] = "derived"
    figure: str = GAIN
    where: Mapping[str, Any] = field(default_factory=dict)
    """Only cases with these fields can show it."""

    @property
    def is_gain(self) -> bool:
        """Whether it compares two sides."""
        return self.figure.startswith(GAIN)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A published idea and how it is tried.

    Of the `sides`, one is the `idea`. The others are comparators, which are tuned as carefully, except for
    those named in `untuned`: what the publication compared with, taken as it is. `measure(case, setting,
    seed)` gives figures; `better` names the one that decides and whether less or more of it is better.
    `health` names a figure that is comparable between cases, more being better: a comparator with less
    than half of its own best has collapsed.
    """

    id: str
    system: str
    family: str
    strength: Strength
    claims: Sequence[Claim]
    rests_on: Mapping[str, str]
    """Physical effects that the claim needs → the module that models each; "" where none does."""
    cases: Callable[[bool], Iterable[Case]]
    sides: Mapping[str, Sequence[Setting]]
    idea: str
    measure: Callable[[Case, Setting, int], Figures]
    better: tuple[str, Literal["min", "max"]]
    health: str
    gone: Callable[[Case], bool]
    """Where there should be no gain."""
    ablate: Mapping[str, Setting]
    """What is taken away → what that sets in every setting of the idea."""
    predictions: Mapping[str, Callable[[Any], F64]]
    """Sentence → by how much it came true, one number per seed: above 0 where it did. Asked of a `Judged`."""
    cannot_say: str
    shows: Mapping[str, Callable[[Any], F64]] = field(default_factory=dict)
    """Further columns of the table of cases, by case and seed; asked of a `Judged`, and never judged."""
    untuned: Sequence[str] = ()
    judged_seeds: int = len(JUDGED_SEEDS)
    """On how many seeds a full run judges: more where seeds differ by more than what is claimed."""
    decides: str = ""
    """Which term decides the outcome, where a predicted figure was missed."""
    amended: str = ""
    """What was changed after results had been seen; a reader must know."""

    def __post_init__(self) -> None:
        for name in (self.idea, *self.untuned):
            if name not in self.sides:
                raise ConfigError(f"study {self.id}: there is no side {name!r}")
        if not len(JUDGED_SEEDS) <= self.judged_seeds <= min(TUNING_SEEDS):
            raise ConfigError(
                f"study {self.id}: {self.judged_seeds} judged seeds; give {len(JUDGED_SEEDS)} to "
                f"{min(TUNING_SEEDS)}, as those from {min(TUNING_SEEDS)} on are for tuning"
            )
        if not self.comparators:
            raise ConfigError(f"study {self.id}: the idea has no tuned comparator")
        own = len(self.sides[self.idea])
        for name in self.comparators:
            if len(self.sides[name]) < own:
                raise ConfigError(
                    f"study {self.id}: {name!r} may choose among {len(self.sides[name])} settings and the "
                    f"idea among {own}; give it as many, or name it in `untuned`"
                )

    @property
    def comparators(self) -> list[str]:
        """The sides that are tuned as carefully as the idea."""
        return [name for name in self.sides if name not in (self.idea, *self.untuned)]

    def ablated(self) -> dict[str, list[Setting]]:
        """Sides in which the idea goes without one of its key lines, and is tuned again."""
        return {
            without(name): unique([{**setting, **change} for setting in self.sides[self.idea]])
            for name, change in self.ablate.items()
        }


def without(name: str) -> str:
    """What the idea is called when this is taken away."""
    return f"without {name}"


def unique(settings: Iterable[Setting]) -> list[Setting]:
    """Each setting once, in the order in which they came."""
    return list({tuple(sorted(s.items())): s for s in settings}.values())
