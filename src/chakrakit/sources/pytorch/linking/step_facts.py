"""What linking says of the step: as recorded, as corrected, and as it takes without recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.report import RankReport
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import is_communication, marked_steps, on_device, slowest
from chakrakit.trace.sets import RecordedStep, Run


class RankRecording(NamedTuple):
    """How one rank's times were made."""

    cost: Overhead | None
    """What was taken out as recording's; None where the times are as recorded."""
    unprofiled_ns: int
    second_pass: bool
    least_ns: int = 0
    """The step with as much and as little taken out as recording may have cost; 0 where that is known."""
    most_ns: int = 0
    device_ns: int = 0
    """How long its device works for the step."""


def recording(
    ranks: Mapping[int, tuple[RankRecording, RankReport]], together: Run | None
) -> RecordedStep:
    """The usual step of the slowest rank; with `together`, the run's own is read from its times."""
    facts = [f for f, _ in ranks.values()]
    reports = [r for _, r in ranks.values()]
    recorded = slowest([_periods(r, ("period_ns", "measured_ns")) for r in reports])
    corrected = slowest([_periods(r, ("scheduled_period_ns", "scheduled_ns")) for r in reports])
    if together is not None:
        corrected = slowest([steps_of(trace) for _, trace in together]) or corrected
    how = _how(facts)
    return RecordedStep(
        recorded_step_ns=recorded,
        step_ns=corrected if how else recorded,
        unprofiled_step_ns=max(f.unprofiled_ns for f in facts),
        corrected=how,
        least_step_ns=max(f.least_ns for f in facts),
        most_step_ns=max(f.most_ns for f in facts),
        device_ns=max(f.device_ns for f in facts),
    )


def steps_of(trace: Trace) -> dict[int, int]:
    """Periods of a linked rank's steps, from the times in its nodes; none where it marks none."""
    works = on_device(trace) | is_communication(trace)
    found = marked_steps(trace, trace.start_ns, trace.end_ns, works)
    return {s.number: s.period for s in found}


def _periods(report: RankReport, keys: tuple[str, str]) -> dict[int, int]:
    return {int(s["step"]): int(s.get(keys[0], s.get(keys[1], 0))) for s in report.steps}


def _how(facts: list[RankRecording]) -> str:
    costs = [f.cost for f in facts if f.cost is not None]
    if not costs:
        return ""
    source = "its card's figures" if costs[0].measured else "the default model"
    timed = " fitted to the un-profiled step" if costs[0].step_ns else ""
    second = "a second pass and " if all(f.second_pass for f in facts) else ""
    return f"by {second}{source}{timed}"
