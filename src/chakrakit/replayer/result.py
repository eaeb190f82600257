"""What a replay gave: a report over all ranks, and the run that was recorded of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import msgspec
import numpy as np

from chakrakit.configuration import LARGEST_WRITTEN, read_json
from chakrakit.errors import FormatError
from chakrakit.replayer.emulate import EmulationPlan
from chakrakit.replayer.plan import ReplayPlan, StandIn
from chakrakit.results import Result
from chakrakit.sources.pytorch.linking import link
from chakrakit.trace.sets import PS_PER_NS, RecordedStep, Run, Times, run_of
from chakrakit.trace.storage import read

Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 61)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Part = Annotated[list[Count], msgspec.Meta(min_length=2, max_length=2)]
PartOfTime = Annotated[list[Nanoseconds], msgspec.Meta(min_length=2, max_length=2)]
"""Numbers in files that ranks and whoever sent a folder wrote; of a pair, the first is part of the second."""

# How a replay compares with the recording it was made from.


class Original(Result, msgspec.Struct):
    """What was recorded of one rank: its step, its time on the device, its kernels by name."""

    step_ns: Nanoseconds
    kernel_ns: Nanoseconds
    kernels: dict[str, Count]


class Difference(Result, msgspec.Struct):
    """A kernel that ran another number of times than it was recorded."""

    name: str
    recorded: int
    replayed: int


class ReplayComparison(Result, msgspec.Struct):
    """The recording, and what of it came out again.

    `step_ns` is the un-profiled step where it is known, else the recorded one corrected for what
    recording cost; `kernel_ns` the device's time of the busiest rank. The changes are shares of
    those: 0.02 is 2 % longer.
    """

    step_ns: int
    kernel_ns: int
    kernels_equal: bool
    """Whether every rank ran the recorded kernels and no others, by name and number."""
    kernels: int
    """How many were recorded, on all ranks."""
    kernels_same: int
    """How many of them ran again."""
    step_change: float
    kernel_change: float
    differences: list[Difference] = []
    """The kernels that differ most in number, at most twenty."""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        parts = []
        if self.kernels:
            parts.append(f"{self.kernels_same:,} of {self.kernels:,} kernels the same")
            parts.append(f"kernels {self.kernel_ns / 1e6:,.3f} ms {self.kernel_change:+.1%}")
        parts.append(f"step {self.step_ns / 1e6:,.3f} ms {self.step_change:+.1%}")
        return f"against the recording: {', '.join(parts)}"


_SHOWN = 20
"""Kinds of differences that are listed: about a screen of them."""


def compare_with_recording(
    *,
    step_ns: int,
    kernel_ns: int,
    kernels: Sequence[tuple[Mapping[str, int], Mapping[str, int]]],
    replayed_step_ns: int,
    replayed_kernel_ns: int,
) -> ReplayComparison:
    """`kernels` are recorded and replayed counts by name, for each rank."""
    differs: Counter[tuple[str, int, int]] = Counter()
    same = 0
    for before, after in kernels:
        same += sum((Counter(before) & Counter(after)).values())
        for name in before.keys() | after.keys():
            was, now = before.get(name, 0), after.get(name, 0)
            if was != now:
                differs[name, was, now] += abs(was - now)
    most = sorted(differs.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return ReplayComparison(
        step_ns=step_ns,
        kernel_ns=kernel_ns,
        kernels_equal=not differs,
        kernels=sum(sum(before.values()) for before, _ in kernels),
        kernels_same=same,
        step_change=_change(step_ns, replayed_step_ns),
        kernel_change=_change(kernel_ns, replayed_kernel_ns),
        differences=[Difference(*key) for key, _ in most],
    )


def _change(before: int, after: int) -> float:
    return after / before - 1 if before else 0.0


SUMMARY = "replay.json"
AnyPlan = ReplayPlan | EmulationPlan
WALLS = {
    "files": "any file (this kernel has no Landlock)",
    "calls": "the network and other processes (no seccomp)",
    "memory": "all of the memory (no resource limits)",
}
"""What stands around a rank's process → what it could have reached without."""


class Share(Result, msgspec.Struct):
    """Replayed of all there is, from 0 to 1: by number of operators, and by recorded time."""

    count: float
    time: float


class IterationSpread(Result, msgspec.Struct):
    """Nanoseconds over the iterations."""

    median: int
    p10: int
    p90: int


class Replaced(Result, msgspec.Struct):
    """What a stand-in took the place of: `time_ns` is what it took per step when recorded."""

    name: str
    count: Count
    time_ns: Nanoseconds
    why: str = ""


class RankResult(Result, msgspec.Struct):
    """One rank's replay. `host_ns` and `cpu_ns` are medians of the host's time and processor time."""

    rank: int
    recorded_rank: int
    coverage: Share
    step_ns: IterationSpread
    host_ns: int
    cpu_ns: int
    kernel_ns: int
    memory_bytes: int
    """Most the device's allocator held; 0 on a CPU."""


class ReplayReport(Result, msgspec.Struct):
    """A replay over all ranks.

    `step_ns` is over iterations, of each the slowest rank; `kernel_ns` is the device's time in one
    iteration of the busiest rank, 0 on a CPU.
    """

    mode: str
    device: str
    coverage: Share
    stand_ins: list[Replaced]
    step_ns: IterationSpread
    kernel_ns: int
    iterations: int
    ranks: list[RankResult]
    recorded: ReplayComparison | None = None
    """How this compares with what was recorded; None for traces that never ran."""
    recording: RecordedStep | None = None
    """The step as recorded, as corrected and without recording, to compare with; None if unknown."""
    warning: str = ""
    """To be shown before everything else; empty where there is nothing to warn of."""


class PlanSummary(Result, msgspec.Struct):
    """What a plan says of itself, for whoever reads the result."""

    rank: int
    recorded_rank: int
    count: Part
    time_ns: PartOfTime
    stand_ins: list[Replaced]


class Summary(Result, msgspec.Struct):
    """`replay.json` of an exported folder."""

    mode: str
    device: str
    ranks: list[PlanSummary]
    recording: RecordedStep | None = None
    original: list[Original] = []


class _NotCovered(Result, msgspec.Struct):
    """A call that a stand-in took the place of."""

    name: str
    time_ns: Nanoseconds
    why: str


class _Outcome(Result, msgspec.Struct):
    """`rank_N.json` as the runner writes it."""

    rank: int
    steps_ns: list[Nanoseconds]
    host_ns: list[Nanoseconds]
    cpu_ns: list[Nanoseconds]
    kernel_ns: Nanoseconds = 0
    memory_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    not_covered: list[_NotCovered] = []
    kernels: dict[str, tuple[Count, Nanoseconds]] = {}
    torch: str = ""
    device: str = ""
    start: list[Nanoseconds] = []
    end: list[Nanoseconds] = []
    epoch_ns: Nanoseconds = 0
    walls: tuple[str, ...] = ()


def summarize(plan: AnyPlan) -> PlanSummary:
    """The part of a plan that a report needs."""
    if isinstance(plan, EmulationPlan):
        left = [e for e in plan.communication.values() if e.group < 0]
        found = [Replaced(e.op, 1, 0, "cannot be done here") for e in left]
    else:
        steps = [s for s in plan.steps if isinstance(s, StandIn)]
        found = [Replaced(s.name, 1, s.host_ns + s.device_ns) for s in steps]
    return PlanSummary(plan.rank, plan.recorded_rank, plan.count, plan.time_ns, _together(found))


def _together(found: list[Replaced]) -> list[Replaced]:
    sums: dict[tuple[str, str], Replaced] = {}
    for one in found:
        total = sums.setdefault((one.name, one.why), Replaced(one.name, 0, 0, one.why))
        total.count += one.count
        total.time_ns += one.time_ns
    return sorted(sums.values(), key=lambda r: (-r.time_ns, r.name, r.why))


def read_report(folder: Path, results: Path) -> ReplayReport:
    """The report of a folder that was run."""
    summary = _read(folder / SUMMARY, Summary)
    outcomes = [_read(results / f"rank_{r.rank}.json", _Outcome) for r in summary.ranks]
    pairs = list(zip(summary.ranks, outcomes, strict=True))
    for ours, theirs in pairs:
        _check_pair(ours, theirs, results)
    slowest = [max(steps) for steps in zip(*(o.steps_ns for o in outcomes), strict=False)]
    replaced = [r for s in summary.ranks for r in s.stand_ins]
    replaced += [Replaced(n.name, 1, n.time_ns, n.why) for o in outcomes for n in o.not_covered]
    return ReplayReport(
        mode=summary.mode,
        device=summary.device,
        coverage=_coverage(pairs),
        stand_ins=_together(replaced),
        step_ns=_spread(slowest),
        kernel_ns=max((o.kernel_ns for o in outcomes), default=0),
        iterations=len(slowest),
        ranks=[_rank(s, o) for s, o in pairs],
        recorded=_compared(summary, outcomes, slowest),
        recording=summary.recording,
        warning=" ".join(filter(None, (_open_walls(outcomes), _recording_warning(summary)))),
    )


def _check_pair(ours: PlanSummary, theirs: _Outcome, results: Path) -> None:
    """What a rank says of itself is about the plan of that rank, and of no more than there was in it."""
    if theirs.rank != ours.rank:
        message = f"is of rank {theirs.rank}, and not of rank {ours.rank}"
    elif any(part > whole for part, whole in (ours.count, ours.time_ns)):
        message = f"{SUMMARY} beside it says that more was planned than recorded"
    elif len(theirs.not_covered) > ours.count[0]:
        message = f"has {len(theirs.not_covered)} stand-ins for {ours.count[0]} operators"
    else:
        return
    raise FormatError(f"{message}; run the folder again", path=f"{results}/rank_{ours.rank}.json")


def _recording_warning(summary: Summary) -> str:
    return summary.recording.warning if summary.recording else ""


def _open_walls(outcomes: list[_Outcome]) -> str:
    """What the operators could have reached that they should not; "" if nothing."""
    reached = [what for wall, what in WALLS.items() if any(wall not in o.walls for o in outcomes)]
    return f"The replay could have reached {' and '.join(reached)}." if reached else ""


def _compared(
    summary: Summary, outcomes: list[_Outcome], slowest: list[int]
) -> ReplayComparison | None:
    """Rank by rank in kernels; the step is that of the slowest."""
    if not summary.original or not any(o.step_ns for o in summary.original):
        return None
    pairs = [
        (summary.original[i % len(summary.original)], outcome) for i, outcome in enumerate(outcomes)
    ]
    known_ns = summary.recording.program_step_ns if summary.recording else 0
    return compare_with_recording(
        step_ns=known_ns or max(o.step_ns for o in summary.original),
        kernel_ns=max(o.kernel_ns for o in summary.original),
        kernels=[
            (o.kernels, {n: c for n, (c, _) in outcome.kernels.items()}) for o, outcome in pairs
        ],
        replayed_step_ns=_spread(slowest).median,
        replayed_kernel_ns=max((o.kernel_ns for o in outcomes), default=0),
    )


def _read(path: Path, kind: Any) -> Any:
    if not path.exists():
        raise FormatError("is not there; was the replay run?", path=str(path))
    return read_json(path, kind, "a result of a replay", LARGEST_WRITTEN)


def _coverage(pairs: list[tuple[PlanSummary, _Outcome]]) -> Share:
    lost_time = sum(n.time_ns for _, o in pairs for n in o.not_covered)
    lost = sum(len(o.not_covered) for _, o in pairs)
    count = [sum(s.count[i] for s, _ in pairs) for i in (0, 1)]
    time = [sum(s.time_ns[i] for s, _ in pairs) for i in (0, 1)]
    share = _ratio(count[0] - lost, count[1])
    # Without times, an operator counts as much as another.
    return Share(share, _ratio(max(time[0] - lost_time, 0), time[1]) if time[1] else share)


def _ratio(part: int, whole: int) -> float:
    """All of nothing is all of it."""
    return part / whole if whole else 1.0


def _spread(values: list[int]) -> IterationSpread:
    if len(values) < 2:
        only = values[0] if values else 0
        return IterationSpread(only, only, only)
    tenths = quantiles(values, n=10, method="inclusive")
    return IterationSpread(round(median(values)), round(tenths[0]), round(tenths[-1]))


def _rank(summary: PlanSummary, outcome: _Outcome) -> RankResult:
    return RankResult(
        rank=summary.rank,
        recorded_rank=summary.recorded_rank,
        coverage=_coverage([(summary, outcome)]),
        step_ns=_spread(outcome.steps_ns),
        host_ns=round(median(outcome.host_ns or [0])),
        cpu_ns=round(median(outcome.cpu_ns or [0])),
        kernel_ns=outcome.kernel_ns,
        memory_bytes=outcome.memory_bytes,
    )


def replayed_run(folder: Path, results: Path, report: ReplayReport) -> Run:
    """What was recorded of a replay as a run: linked from its profile, or the trace with new times."""
    if (folder / "trace").is_dir():
        return _with_times(folder, results, report)
    measured = {"replay": msgspec.to_builtins(report)}
    found = link([results])[0]
    found.card = found.card.replace(name=folder.name, tool="chakra replay", measured=measured)
    return found


def _with_times(folder: Path, results: Path, report: ReplayReport) -> Run:
    outcomes = [_read(results / f"rank_{r.rank}.json", _Outcome) for r in report.ranks]
    epoch = min(o.epoch_ns for o in outcomes)
    times = {
        o.rank: Times(
            np.array(o.start, np.int64) + o.epoch_ns - epoch,
            np.array(o.end, np.int64) + o.epoch_ns - epoch,
        )
        for o in outcomes
    }
    measured = {"replay": msgspec.to_builtins(report)}
    return run_of(
        read(str(folder / "trace")),
        times,
        tool="chakra replay",
        epoch_ns=epoch,
        tick_ps=PS_PER_NS,
        measured=measured,
    )
