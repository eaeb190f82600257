"""RecordedStep: how long a step took while it was recorded, and how long it takes when it is not."""

from __future__ import annotations

import msgspec

from chakrakit.trace.sets.card import Card

DILATED = 1.2
"""A step that recording made longer than this many times is not what the program does."""
FILLED = 0.88
"""A device that works this share of a step bounds it."""
_KEY = "recording"


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
        told = {**card.measured, _KEY: msgspec.to_builtins(self)}
        return card.replace(measured=told)


def recorded_step_of(card: Card) -> RecordedStep | None:
    """What a run's card says of its recording; None for what was never recorded."""
    told = card.measured.get(_KEY)
    if not isinstance(told, dict):
        return None
    try:
        return msgspec.convert(told, RecordedStep)
    except msgspec.ValidationError:
        return None


def _ms(nanos: float) -> str:
    return f"{nanos / 1e6:,.2f} ms"
