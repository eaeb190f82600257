"""Steps: as the trace marks them, or found where the same work repeats."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.rank import RankView, Table, ms, rank_views
from chakrakit.results import Result
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import step_numbers


class Step(Result, msgspec.Struct):
    """One step of one rank. Its period lasts from the end of the step before to its own end."""

    rank: int
    step: int
    start_ns: int
    end_ns: int
    period_ns: int


class Steps(Result, msgspec.Struct):
    """Steps of all ranks. `found` says how: `marked`, `repeating`, or `none` (the run is one step)."""

    found: str
    steps: list[Step]
    median_ns: int
    """The usual step: of each step the slowest rank's period, of those the median. Where there are
    more than two, the first is left out: it began before it was recorded."""

    def table(self) -> Table:
        """A step and rank a row."""
        rows = [(s.rank, s.step, ms(s.start_ns), ms(s.end_ns), ms(s.period_ns)) for s in self.steps]
        return Table.of(
            f"steps ({self.found})", ("rank", "step", "start ms", "end ms", "period ms"), rows
        )


def steps_of(view: RankView) -> tuple[str, list[Step]]:
    """The part of one rank."""
    rows = np.flatnonzero(view.works_on_device & ~_orphan(view))
    if not len(rows):
        return "none", []
    number, found = step_numbers(view.trace, rows, view.start)
    known = number >= 0
    rows, number = rows[known], number[known]
    if not len(rows):
        return "none", []
    values = np.unique(number)
    out = []
    before = _before_first(view, rows, number, int(values[0]))
    for value in values.tolist():
        mine = rows[number == value]
        start, end = int(view.start[mine].min()), int(view.end[mine].max())
        out.append(Step(view.rank, value, start, end, end - before))
        before = end
    return found, out


def _orphan(view: RankView) -> Mask:
    return np.asarray(view.trace.column("orphan", False), np.bool_)


def _before_first(view: RankView, rows: I64, number: I64, first: int) -> int:
    """When the device was done with what came before; else when the step began on the host."""
    orphans = np.flatnonzero(_orphan(view))
    if len(orphans):
        return int(view.end[orphans].max())
    start = int(view.start[rows[number == first]].min())
    host = view.on_host & view.ran & (view.trace.column("step", -1) == first)
    return min(start, int(view.start[host].min())) if host.any() else start


def join_steps(parts: list[tuple[str, list[Step]]], span: int) -> Steps:
    """All ranks' steps."""
    ways = {way for way, _ in parts}
    found = next((w for w in ("marked", "repeating") if w in ways), "none")
    steps = [s for _, part in parts for s in part]
    if found == "none":
        return Steps("none", steps, span)
    periods: dict[int, int] = {}
    for s in steps:
        periods[s.step] = max(periods.get(s.step, 0), s.period_ns)
    order = [periods[k] for k in sorted(periods)]
    usual = order[1:] if len(order) > 2 else order
    return Steps(found, steps, int(np.median(usual)))


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
    from chakrakit.insight.rank import span_ns

    low, high = span_ns(run)
    return join_steps([steps_of(v) for v in rank_views(run)], high - low)
