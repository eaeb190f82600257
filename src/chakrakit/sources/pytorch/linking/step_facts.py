"""The step's duration as recorded, as corrected and without recording; and the cards these come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chakrakit.configuration import read_json
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.sources.pytorch.groups import Groups as RecordedGroups
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.report import RankReport
from chakrakit.sources.pytorch.read import RecordingPair
from chakrakit.trace.communication import Body
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import marked_steps, slowest
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
    least_host_percent: int = 0
    """Between which shares of its corrected time the host's may lie; 0 where that is not known."""
    most_host_percent: int = 0


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
    step = corrected if how else recorded
    least, most = max(f.least_ns for f in facts), max(f.most_ns for f in facts)
    return RecordedStep(
        recorded_step_ns=recorded,
        step_ns=step,
        unprofiled_step_ns=max(f.unprofiled_ns for f in facts),
        corrected=how,
        least_step_ns=min(least, step),  # they are the last step's, and this is the usual one
        most_step_ns=max(most, step) if least else 0,
        device_ns=max(f.device_ns for f in facts),
        least_host_percent=min(f.least_host_percent for f in facts),
        most_host_percent=max(f.most_host_percent for f in facts),
    )


def steps_of(trace: Trace) -> dict[int, int]:
    """Periods of a linked rank's steps, from the times in its nodes; none where it marks none."""
    steps = marked_steps(trace, trace.start_ns, trace.end_ns)
    return {s.number: s.period for s in steps}


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


# The card beside a rank's files: what recording costs, and how long a step takes without it.
_AMOUNTS = ("operator_ns", "launch_ns", "call_ns", "observer_ns", "graph_node_ns")
_BARE_MS = "step_ms_back_to_back"
"""What some cards call a step timed without recording, in ms, no synchronisation between steps."""


class RankCard(NamedTuple):
    """The card beside a rank's files; without one, no path and no fields."""

    rank: int
    path: Path | None
    fields: dict[str, Any]

    @property
    def of_collector(self) -> dict[str, Any]:
        """The fields of this rank's card if the collector wrote it; {} for any other card."""
        of_this_rank = self.path is not None and self.path.name == f"card_{self.rank}.json"
        return self.fields if of_this_rank else {}


def cards_of(pairs: Sequence[RecordingPair]) -> list[RankCard]:
    """The card of each rank; one that ranks share is read once."""
    paths = [_card_path(pair) for pair in pairs]
    fields = {path: _fields(path) for path in dict.fromkeys(paths)}
    return [RankCard(pair.rank, p, fields[p]) for pair, p in zip(pairs, paths, strict=True)]


def _fields(path: Path | None) -> dict[str, Any]:
    return {} if path is None else read_json(path, dict[str, Any], "a card beside a recording")


def _card_path(pair: RecordingPair) -> Path | None:
    """The card of a rank: its own, or that of its folder."""
    folder = pair.paths[0].parent
    for name in (f"card_{pair.rank}.json", "card.json"):
        if (folder / name).is_file():
            return folder / name
    cards = sorted(folder.glob("*card*.json"))
    return cards[0] if len(cards) == 1 else None


def overhead_of(card: RankCard) -> Overhead | None:
    """Recording's cost from the rank's card; None if the card does not give it."""
    fields = card.fields.get("overhead")
    fields = fields if isinstance(fields, dict) else {}
    amounts = {k: _whole(fields[k]) for k in _AMOUNTS if k in fields}
    step = _whole(fields.get("step_ns")) or _whole(_number(card.fields.get(_BARE_MS)) * 1e6)
    if not amounts and not step:
        return None
    return Overhead(**amounts, step_ns=step, measured=bool(amounts))


def _number(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if good and 0 < value < 1e12 else 0.0  # type: ignore[arg-type, operator]


def _whole(value: object) -> int:
    return round(_number(value))


@dataclass(kw_only=True)
class LinkedRank:
    """One rank while all ranks are put together; a worker's trace stays on disk until it is used."""

    body: Body
    report: RankReport
    recorded: RankCollectives
    groups: RecordedGroups
    epoch: int
    base_ns: int
    facts: RankRecording
    card: RankCard
    device: str = ""
    """The accelerator's name, `cpu` where nothing ran on one, empty where no file says."""


def list_of(linked: LinkedRank) -> list[Any]:
    """A rank's collectives, to be changed in place."""
    collectives = linked.recorded.collectives
    assert isinstance(collectives, list)
    return collectives
