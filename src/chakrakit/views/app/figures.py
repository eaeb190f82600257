"""Figures over time below a rank: memory, power, links, and an engine's cache, batch and queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.trace.sets import CounterSeries, Run
from chakrakit.views.app.lod import TimeWindow

_LINK = "link rate "
_TITLES = {"kv cache": "cache", "queue depth": "queue", "queue depth waiting": "queue"}
"""What the page calls a counter whose own name is a term of the file."""


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure of a rank: from each time on (ns since the run's begin) a value in `unit`."""

    title: str
    unit: str
    time: I64
    value: F64
    limit: float = 0.0
    """What it can be at the most, where that is known."""

    @cached_property
    def peak(self) -> float:
        """The highest value."""
        return float(self.value.max(initial=0.0))

    def highest(self, window: TimeWindow) -> list[float]:
        """The highest value in each part of a window."""
        at = np.searchsorted(self.time, window.borders, side="right") - 1
        before = np.where(at[:-1] >= 0, self.value[np.maximum(at[:-1], 0)], 0)
        peaks = np.maximum.reduceat(np.r_[self.value, 0], np.minimum(at[:-1] + 1, len(self.value)))
        within = np.where(at[1:] > at[:-1], peaks, 0)
        highest: list[float] = np.maximum(before, within).tolist()
        return highest


def figures_of(run: Run, rank: int, origin: int) -> list[Figure]:
    """All figures over time that a run has of a rank, those of links last."""
    figures = _figures(run, rank, origin)
    return sorted(figures, key=lambda figure: (figure.unit == "bytes/s", figure.title))


def _figures(run: Run, rank: int, origin: int) -> Iterator[Figure]:
    ends = _link_ends(run)
    for series in run.counters.series(rank):
        if not series.value.any():
            continue
        title, limit = _TITLES.get(series.name, series.name), 0.0
        if series.name.startswith(_LINK):
            title, limit = ends.get(series.name.removeprefix(_LINK), (title, 0.0))
        yield Figure(title, series.unit, _sorted(series) - origin, series.value, limit)


def _sorted(series: CounterSeries) -> I64:
    return np.maximum.accumulate(series.time_ns)


def _link_ends(run: Run) -> dict[str, tuple[str, float]]:
    """For each link of the run, its ends as a text, and its bandwidth."""
    table = run.counters.get("links")
    rows = table.to_pylist() if table is not None and table.num_rows <= _MOST_LINKS else []
    return {row["link"]: (f"{row['src']} → {row['dst']}", row["bandwidth"]) for row in rows}


_MOST_LINKS = 100_000
"""Links whose ends are looked up; the rates of more are never kept."""
