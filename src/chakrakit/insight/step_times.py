"""Steps: as the trace marks them, or found where the same work repeats."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.rank import RankView, Table, ms, rank_views
from chakrakit.results import Result
from chakrakit.trace.placement import StepRows, slowest, step_rows
from chakrakit.trace.sets import Run


class RankStep(Result, msgspec.Struct):
    """One step of one rank. Its period lasts from the end of the step before to its own end."""

    rank: int
    step: int
    start_ns: int
    end_ns: int
    period_ns: int


class Steps(Result, msgspec.Struct):
    """Steps of all ranks. `found` says how: `marked`, `repeating`, or `none` (the run is one step)."""

    found: str
    steps: list[RankStep]
    median_ns: int
    """The usual step: the median over steps of the slowest rank's period. If there are several steps, the
    first is left out, because its beginning was not recorded."""

    @property
    def count(self) -> int:
        """How many steps the run has; 1 where none was found."""
        return len({s.step for s in self.steps}) or 1

    def table(self) -> Table:
        """One row per step and rank."""
        rows = [(s.rank, s.step, ms(s.start_ns), ms(s.end_ns), ms(s.period_ns)) for s in self.steps]
        return Table.of(
            _TITLES[self.found], ("rank", "step", "start ms", "end ms", "period ms"), rows
        )


_TITLES = {
    "marked": "steps, as the trace marks them",
    "repeating": "steps, found where work repeats",
    "none": "one step: the trace marks none and no work repeats",
}


def steps_of(view: RankView) -> tuple[str, list[RankStep]]:
    """How the steps of one rank were found, and the steps."""
    source, rows = rows_of_steps(view)
    spans = rows.spans(view.start, view.end)
    if not spans:
        return "none", []
    return source, [RankStep(view.rank, *span) for span in spans]


def rows_of_steps(view: RankView) -> tuple[str, StepRows]:
    """How a rank's steps were found (`none`: the run is one step), and the rows of each step."""
    number, source = _numbers(view)
    return source, step_rows(view.trace, view.ran, view.works_on_device | view.uses_store, number)


def _numbers(view: RankView) -> tuple[I64, str]:
    """The step of each row (-1: none), and how steps were found."""
    number = view.trace.step
    if (number >= 0).any():
        return number, "marked" if view.trace.has("step").any() else "repeating"
    return np.zeros(len(view), np.int64), "none"


def join_steps(parts: list[tuple[str, list[RankStep]]], span: int) -> Steps:
    """The steps of all ranks, and the usual step."""
    ways = {way for way, _ in parts}
    source = next((w for w in ("marked", "repeating") if w in ways), "none")
    steps = [s for _, part in parts for s in part]
    if source == "none":
        return Steps("none", steps, span)
    by_rank: dict[int, dict[int, int]] = {}
    for s in steps:
        by_rank.setdefault(s.rank, {})[s.step] = s.period_ns
    return Steps(source, steps, slowest(by_rank.values()))


def steps(run: Run) -> Steps:
    """Find the steps of a run: as marked, or where the same work repeats.

    Parameters
    ----------
    run
        A Run.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> round(ck.steps(run).median_ns / 1e6, 6) == round(run.step_ms, 6)
    True

    """
    low, high = run.span_ns
    return join_steps([steps_of(v) for v in rank_views(run)], high - low)
