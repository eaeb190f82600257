"""Card: who made a trace or run, from what, under which settings, with which measured figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from chakrakit.configuration import read_json
from chakrakit.results import short_repr
from chakrakit.trace.files import BundlePath


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Free to extend: what has no field of its own goes into `settings`, `measured` or `extra`."""

    name: str = "trace"
    kind: str = "traces"
    """`traces` or `run`."""
    tool: str = ""
    source: list[str] = []
    """Files or commands it was made from."""
    settings: dict[str, Any] = {}
    measured: dict[str, Any] = {}
    passes: list[str] = []
    """What was done to it since, in order."""
    epoch_ns: int = 0
    tick_ps: Annotated[int, msgspec.Meta(ge=1)] = 1000
    partial: list[int] = []
    """Ranks known from the groups that were not recorded."""
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        return short_repr(self)

    def replace(self, **changes: Any) -> Card:
        """The same with some fields changed."""
        return msgspec.structs.replace(self, **changes)


def write_card(card: Card, path: Path) -> None:
    """Indented, so that people can read it."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")


def read_card(path: Path | BundlePath) -> Card:
    """A card file, with errors that say which field is wrong."""
    return read_json(path, Card, "a card")


# Footprint: what a simulated run takes and gives (energy, carbon, money, tokens), and how sure that is.


_KEY = "footprint"


class Footprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all devices of a run come to; None where the machine or the workload does not say."""

    energy_joules: float | None = None
    """What the devices draw over the run."""
    energy_by_class: dict[str, float] = {}
    """The same by class of work, in joules; `idle` is what devices draw while they do nothing."""
    facility_joules: float | None = None
    """With the servers around the devices and the building around the servers."""
    carbon_kg: float | None = None
    """CO2 equivalent of the facility's energy."""
    price: float | None = None
    """In US dollars, by the devices' price per hour."""
    tokens_per_s: float | None = None
    """Tokens of the step over its time, all ranks together."""
    extrapolated_share: float | None = None
    """Share of the devices' operation time that nobody measured or measured the like of."""
    compute_error: float | None = None
    """By what share operations' times may be off: each one's own estimate, weighted by its time."""

    def figures(self) -> dict[str, float]:
        """What is known, one number per name."""
        found = {n: getattr(self, n) for n in self.__struct_fields__ if n != "energy_by_class"}
        return {name: value for name, value in found.items() if value is not None}

    def put(self, card: Card) -> Card:
        """The card with this on it."""
        told = {"passes": len(card.passes), **msgspec.to_builtins(self)}
        return card.replace(measured={**card.measured, _KEY: told})


def footprint_of(card: Card) -> Footprint | None:
    """What a run's card says; None where it says nothing, or passes changed the run since."""
    told = card.measured.get(_KEY)
    if not isinstance(told, dict) or told.get("passes") != len(card.passes):
        return None
    try:
        return msgspec.convert({k: v for k, v in told.items() if k != "passes"}, Footprint)
    except msgspec.ValidationError:
        return None


# RecordedStep: how long a step took while it was recorded, and how long it takes when it is not.


DILATED = 1.2
"""A step that recording made longer than this many times is not what the program does."""
FILLED = 0.88
"""A device that works this share of a step bounds it."""
_RECORDED_STEP_KEY = "recording"


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a recorded step, in ns; 0 where a figure is not known.

    `step_ns` is the step of the run's own times, corrected where `corrected` says how.
    """

    recorded_step_ns: int = 0
    step_ns: int = 0
    unprofiled_step_ns: int = 0
    corrected: str = ""
    """How recording's cost was taken out of the times; empty where it was not."""
    least_step_ns: int = 0
    """Between these the step lies where recording's cost was estimated and nobody timed the program alone."""
    most_step_ns: int = 0
    device_ns: int = 0
    """How long the busiest device works for the step."""

    @property
    def program_step_ns(self) -> int:
        """The best that is known of a step of the program itself: timed alone, else the run's own."""
        return self.unprofiled_step_ns or self.step_ns

    @property
    def dilation(self) -> float:
        """How many times too long the run's own step is; 0 where nobody timed the program alone."""
        return self.step_ns / self.unprofiled_step_ns if self.unprofiled_step_ns else 0.0

    @property
    def bound_uncertain(self) -> bool:
        """Whether the device bounds the step at one end of where it may lie, and not at the other."""
        if not self.least_step_ns:
            return False
        return self.least_step_ns * FILLED <= self.device_ns < self.most_step_ns * FILLED

    @property
    def _range(self) -> str:
        return f"{self.least_step_ns / 1e6:,.2f} to {_ms(self.most_step_ns)}"

    @property
    def warning(self) -> str:
        """A sentence for the first line of every result, empty where there is nothing to warn of."""
        if self.bound_uncertain:
            return (
                f"whether the host or the device bounds this run is not certain: recording's cost is an "
                f"estimate, so that a step takes {self._range}, of which the device works "
                f"{_ms(self.device_ns)}; time the program without a profiler (`chakra collect` does)"
            )
        if self.dilation <= DILATED:
            return ""
        how = "even corrected for recording" if self.corrected else "recording"
        return (
            f"{how} makes a step {self.dilation:.2f} times as long as it is: {_ms(self.step_ns)} "
            f"instead of {_ms(self.unprofiled_step_ns)}; what bounds this run may not bound the program"
        )

    @property
    def sentence(self) -> str:
        """All the steps that are known."""
        parts = []
        if self.recorded_step_ns:
            parts.append(f"recorded {_ms(self.recorded_step_ns)}")
        if self.corrected:
            between = f", {self._range}" if self.least_step_ns else ""
            parts.append(f"corrected {_ms(self.step_ns)} ({self.corrected}{between})")
        if self.unprofiled_step_ns:
            parts.append(f"un-profiled {_ms(self.unprofiled_step_ns)}")
        return f"step: {', '.join(parts)}" if parts else ""

    def lines(self) -> list[str]:
        """What to say before anything else: the warning, and the steps that are known."""
        warning = [f"warning: {self.warning}"] if self.warning else []
        return [*warning, *([self.sentence] if self.sentence else [])]

    def put(self, card: Card) -> Card:
        """The card with this on it."""
        told = {**card.measured, _RECORDED_STEP_KEY: msgspec.to_builtins(self)}
        return card.replace(measured=told)


def recorded_step_of(card: Card) -> RecordedStep | None:
    """What a run's card says of its recording; None for what was never recorded."""
    told = card.measured.get(_RECORDED_STEP_KEY)
    if not isinstance(told, dict):
        return None
    try:
        return msgspec.convert(told, RecordedStep)
    except msgspec.ValidationError:
        return None


def _ms(nanos: float) -> str:
    return f"{nanos / 1e6:,.2f} ms"
