"""A run under edits, drawn below the original: rows stay in their tracks, and only their times move."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.rank import RankView
from chakrakit.simulator.results import EditedRun
from chakrakit.trace.sets import PS_PER_NS, Run
from chakrakit.views.app.figures import Figure
from chakrakit.views.app.findings import BackgroundAnalysis
from chakrakit.views.app.lod import SliceLine
from chakrakit.views.app.rank_lines import RankLines, TrackLines, strip_of
from chakrakit.views.app.shown_run import ShownRun

_KEPT_FACTS = ("kind", "on_host", "is_comm", "is_leaf", "parent", "has_device")
"""What a view knows of its rows that does not depend on their times."""


class EditedSide(ShownRun):
    """What became of a shown run. The whole run is made only where more than a timeline is asked for."""

    def __init__(self, original: ShownRun, edited: EditedRun) -> None:
        self._original, self._edited = original, edited
        self._keep("edited", [])

    @cached_property
    def run(self) -> Run:  # type: ignore[override]
        """The edited run."""
        return self._edited.run

    @cached_property
    def findings(self) -> BackgroundAnalysis:  # type: ignore[override]
        """Its analysis, when somebody asks for it."""
        return BackgroundAnalysis(self.run)

    @property
    def origin(self) -> int:
        """Schedules begin at 0."""
        return 0

    def figures(self, rank: int) -> list[Figure]:
        """Nothing is known of the memory, the power and the links of a schedule."""
        return []

    def key(self, rank: int) -> Hashable:
        """A key that is equal for ranks with the same program and times."""
        return self._original.key(rank) if self._edited.keeps_ranks_alike else super().key(rank)

    def alike(self, rank: int) -> tuple[int, ...]:
        """All ranks with the program and times of this one."""
        if self._edited.keeps_ranks_alike:
            return self._original.alike(rank)
        return super().alike(rank)

    def lines(self, rank: int) -> RankLines:
        """The lines of a rank: the original's with other times, where its rows are the same ones."""
        times = self._edited.rank_times(rank)
        if times is None:
            return super().lines(rank)
        return self._lines.get(self.key(rank), lambda: self._moved(rank, *times))

    def _moved(self, rank: int, start_ps: I64, end_ps: I64) -> RankLines:
        lines, view = self._original.lines(rank), self._original.view(rank)
        start, end = start_ps // PS_PER_NS, -(-end_ps // PS_PER_NS)
        tracks = [
            TrackLines(t.track, [_line(line, start, end) for line in t.depths], t.lane)
            for t in lines.tracks
        ]
        ran = end >= 0
        span = (int(start[ran].min()), int(end[ran].max())) if ran.any() else (0, -1)
        strip = strip_of(_view(view, start, end), 0)
        return replace(lines, tracks=tracks, span=span, strip=strip)


def _line(line: SliceLine, start: I64, end: I64) -> SliceLine:
    begins = start[line.row]
    order = np.argsort(begins, kind="stable") if (np.diff(begins) < 0).any() else slice(None)
    row = line.row[order]
    return SliceLine(start[row], end[row], row, line.code[order])


def _view(view: RankView, start: I64, end: I64) -> RankView:
    moved = RankView(view.rank, view.trace, start, end, view.measured, view.groups)
    vars(moved).update({name: getattr(view, name) for name in _KEPT_FACTS})
    return moved
