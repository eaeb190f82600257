"""Card: who made a trace or run, from what, under which settings, with which measured figures.

Footprint and RecordedStep are two groups of such figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from chakrakit.configuration import read_json
from chakrakit.results import short_repr
from chakrakit.trace.files import BundlePath


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a trace or run came to be; what has no field here goes into `settings`, `measured` or `extra`."""

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
    """Writes a card as indented JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")


def read_card(path: Path | BundlePath) -> Card:
    """A card file, with errors that say which field is wrong."""
    return read_json(path, Card, "a card")


RECORDED_DEVICE = "recorded_on"
"""The setting that says which device took the recorded times: a driver's name of it, or `CPU`."""
CPU = "cpu"
"""What a recording without an accelerator was recorded on."""
CAMPAIGN = "chakra campaign"
"""The tool of runs whose rows are what a job did over months, not operations of a machine."""
GENERATED = "chakra generate"
"""The tool of traces that never ran: steps of a described model and plan."""
CAPTURED = "chakra capture"
"""The tool of programs that ran on devices which were not there."""
CAPTURED_VERSION = "chakrakit.capture.1"
"""The version in captured traces' metadata, which tells what files without a card are."""
LINKED = "chakra link"
"""The tool of linked recordings."""
SIMULATED = "chakra simulate"
"""The tool of simulated runs, and of traces that passes made of them."""
LIKE_COMMUNICATION = "like_communication"
"""The setting that lists kernels which look like communication and count as computation: name → count."""
_FOOTPRINT_KEY = "footprint"


def has_run(card: Card) -> bool:
    """Whether durations are those of work beside its communication: recorded, or simulated."""
    return card.tool in (LINKED, SIMULATED)


def is_generated(card: Card) -> bool:
    """Whether the rows are a described plan's steps, as generated or in a simulated run of them."""
    return card.tool == GENERATED or "plan" in card.settings


class Footprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Energy, carbon, price and tokens of a run; None where machine or workload lack the figures for it."""

    energy_joules: float | None = None
    """What the devices draw over the run."""
    energy_by_class: dict[str, float] = {}
    """The same by class of work, in joules; `idle` is what devices draw while they do nothing."""
    facility_joules: float | None = None
    """With the devices' share of their servers, and the building around the servers."""
    carbon_kg: float | None = None
    """CO2 equivalent of the facility's energy."""
    price: float | None = None
    """In US dollars, by the devices' price per hour."""
    tokens_per_s: float | None = None
    """Tokens of the step over its time, all ranks together."""
    extrapolated_share: float | None = None
    """Share of the devices' operation time for which nothing similar was measured."""
    compute_error: float | None = None
    """By what share operations' times may be off: each one's own estimate, weighted by its time."""

    interval_ns: tuple[float, float] | None = None
    """Where 90 of 100 measured makespans should lie."""
    interval_groups: dict[str, tuple[float, float, float, float]] = {}
    """What the interval is made of: ns on the critical path, and shares of them, by group of residuals."""
    interval_operations: dict[str, dict[str, float]] = {}
    """By group of residuals, ns of the operations that take longest on the critical path."""
    interval_step: str = ""
    """The group of published training steps whose residuals the interval respects."""
    modelled: bool = False
    """Whether communication between nodes, which is modelled and not measured, is on the critical path."""
    rung: str = ""
    """Where the times of computation come from: `recorded`, a profile, or a data sheet."""

    def figures(self) -> dict[str, float]:
        """What is known, one number per name."""
        words = ("energy_by_class", "rung", "modelled")
        names = (n for n in self.__struct_fields__ if not n.startswith("interval"))
        fields = {n: getattr(self, n) for n in names if n not in words}
        return {name: value for name, value in fields.items() if value is not None}

    def put(self, card: Card) -> Card:
        """The card with this on it."""
        entry = {"passes": len(card.passes), **msgspec.to_builtins(self)}
        return card.replace(measured={**card.measured, _FOOTPRINT_KEY: entry})


def footprint_of(card: Card) -> Footprint | None:
    """The footprint in a run's card; None where it has none, or passes changed the run since."""
    entry = card.measured.get(_FOOTPRINT_KEY)
    if not isinstance(entry, dict) or entry.get("passes") != len(card.passes):
        return None
    try:
        return msgspec.convert({k: v for k, v in entry.items() if k != "passes"}, Footprint)
    except msgspec.ValidationError:
        return None


DILATED = 1.2
"""A step that recording made longer than this many times is not what the program does."""
FILLED = 0.88
"""A device that works this share of a step bounds it."""
_RECORDING_KEY = "recording"


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long a step took while it was recorded and takes otherwise, in ns; 0 where not known.

    `step_ns` is the step of the run's own times, corrected where `corrected` says how.
    """

    recorded_step_ns: int = 0
    step_ns: int = 0
    unprofiled_step_ns: int = 0
    corrected: str = ""
    """How recording's cost was taken out of the times; empty where it was not."""
    least_step_ns: int = 0
    """The step lies between this and `most_step_ns` where recording's cost is only an estimate."""
    most_step_ns: int = 0
    device_ns: int = 0
    """How long the busiest device works for the step."""
    least_host_percent: int = 0
    """The host's time lies between this share of its corrected time and `most_host_percent`: a step that the
    device bounds does not tell what recording cost the host."""
    most_host_percent: int = 0
    disagreements: list[str] = []
    """Where the recording contradicts itself, mostly ranks each other; such a run can be looked at, and not
    simulated."""
    hole: str = ""
    """A sentence on the hours for which nothing is recorded, where they are most of the run."""
    unwritten_steps: int = 0
    """Steps between the recorded ones that the recorder counted and did not write."""

    @property
    def program_step_ns(self) -> int:
        """The best that is known of a step of the program itself: timed alone, else the run's own."""
        return self.unprofiled_step_ns or self.step_ns

    @property
    def dilation(self) -> float:
        """How many times too long the run's own step is; 0 where the program was not timed alone."""
        return self.step_ns / self.unprofiled_step_ns if self.unprofiled_step_ns else 0.0

    @property
    def bound_uncertain(self) -> bool:
        """Whether the device bounds the step at one end of where it may lie, and not at the other."""
        if not self.least_step_ns:
            return False
        return self.least_step_ns * FILLED <= self.device_ns < self.most_step_ns * FILLED

    def doubt(self, bound: str, step_ns: float) -> str:
        """A sentence on why the bound of the run's own times may be wrong; empty where nothing says so.

        `step_ns` is a step of the run's own times.
        """
        device = bound == "device"
        if device and 0 < step_ns < FILLED * self.unprofiled_step_ns:
            return (
                f"The program alone takes {_ms(self.unprofiled_step_ns)} a step: more than the recording "
                "explains, probably its host."
            )
        fills = self.device_ns >= FILLED * (self.least_step_ns if device else self.most_step_ns)
        if self.least_step_ns and bound in ("device", "host") and fills != device:
            return (
                f"A step takes {self._range} without recording, by an estimate, and the device works "
                f"{_ms(self.device_ns)} of it: that {'does not fill' if device else 'fills'} it."
            )
        return ""

    @property
    def _range(self) -> str:
        return f"{self.least_step_ns / 1e6:,.2f} to {_ms(self.most_step_ns)}"

    @property
    def warning(self) -> str:
        """A sentence for the first line of every result, empty where there is nothing to warn of."""
        return "; ".join(doubt for doubt in (self.hole, self._doubted_step) if doubt)

    @property
    def _doubted_step(self) -> str:
        if self.disagreements:
            more = len(self.disagreements) - 1
            return (
                f"the recording contradicts itself: {self.disagreements[0]}"
                + (f" (and {more} more)" if more else "")
                + "; what its ranks do together is not certain"
            )
        if self.unwritten_steps:
            return (
                f"{self.unwritten_steps:,} steps between the recorded ones were not written (a sampled "
                "recording): the time of steps and what is idle count them in"
            )
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
        if self.corrected and self.step_ns:
            between = f", {self._range}" if self.least_step_ns else ""
            parts.append(f"corrected {_ms(self.step_ns)} ({self.corrected}{between})")
        if self.unprofiled_step_ns:
            parts.append(f"un-profiled {_ms(self.unprofiled_step_ns)}")
        return f"step: {', '.join(parts)}" if parts else ""

    def lines(self) -> list[str]:
        """The first lines of a result about this run: the warning, and the known steps."""
        warning = [f"warning: {self.warning}"] if self.warning else []
        return [*warning, *([self.sentence] if self.sentence else [])]

    def put(self, card: Card) -> Card:
        """The card with this on it."""
        measured = {**card.measured, _RECORDING_KEY: msgspec.to_builtins(self)}
        return card.replace(measured=measured)


def recorded_step_of(card: Card) -> RecordedStep | None:
    """The recorded step in a run's card; None where it has none."""
    entry = card.measured.get(_RECORDING_KEY)
    if not isinstance(entry, dict):
        return None
    try:
        return msgspec.convert(entry, RecordedStep)
    except msgspec.ValidationError:
        return None


def _ms(nanos: float) -> str:
    return f"{nanos / 1e6:,.2f} ms"
