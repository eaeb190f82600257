"""The state of the app: one run, or two that are compared."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrakit.arrays import I8
from chakrakit.errors import ConfigError
from chakrakit.insight import (
    Analysis,
    Comparison,
    Paired,
    RowChange,
    call_tree,
    compare_analyses,
    is_served,
    links_use,
    pair,
    ranks_text,
)
from chakrakit.insight.rank import facts_of, short
from chakrakit.results import time_text
from chakrakit.trace.query import query, rows_of
from chakrakit.trace.sets import Run
from chakrakit.views import charts
from chakrakit.views.app.lod import TimeWindow
from chakrakit.views.app.node import brief
from chakrakit.views.app.painting import codes_by, legends
from chakrakit.views.app.shown_run import Fold, Recent, ShownRun
from chakrakit.views.charts import join
from chakrakit.views.colors import CAMPAIGN_PARTS, COLORS, REQUEST_PARTS
from chakrakit.views.network_map import network_map
from chakrakit.views.report import SECTIONS, comparison_section
from chakrakit.views.timeline import TimelineOptions, write_timeline

if TYPE_CHECKING:
    from chakrakit.views.app.editing import Editing

_PAIRS = 64
"""Ranks whose rows stay paired with the other run's: those on a screen, at 9 bytes a row and side."""
_QUERIED = 200
"""Rows of a query that the page shows."""
_PATH_SHOWN = 300
"""Segments of the critical path that an answer lists; the page shows them as a table."""
_CHANGES = [change.name.lower() for change in RowChange]
_COMPARISON = "Comparison"
_FLAME = "Flame graph"
_NETWORK = "Network"
_LEAST = 0.0005
"""The share of the time below which a call is not drawn: half a pixel of a wide screen."""
_ONLY_OF: dict[str, Callable[[Run], bool]] = {
    "Serving": is_served,
    "Storage": lambda run: "storage" in run.counters,
}
"""Tabs that only some runs have, and the test for it."""


class AppSession:
    """One run, two that are compared, or jobs that ran together (sides).

    Everything is computed when it is first requested, and kept.
    """

    def __init__(self, sides: list[ShownRun], machine: str = "", together: bool = False) -> None:
        self.sides, self.together = sides, together
        self._machine = machine
        self._pairs: Recent[tuple[Paired, Paired]] = Recent(threading.RLock(), _PAIRS)
        self._comparison: Comparison | None = None
        self._empty: list[str] | None = None

    @cached_property
    def editing(self) -> Editing:
        """Edits of the first run; the page offers them where it is the only one."""
        from chakrakit.views.app.editing import Editing

        return Editing(self.sides[0], self._machine)

    def summary(self) -> dict[str, Any]:
        """What the page needs first; no rank is read for it."""
        return {
            "sides": [_side_summary(side) for side in self.sides],
            "together": self.together,
            "legends": legends(),
            "changes": [{"name": n, "color": charts.color(n)} for n in _CHANGES],
            "tabs": [*([_COMPARISON] if self.is_pair else []), *self._sections()],
            "looks": [_FLAME, *([_NETWORK] if any(map(_has_links, self.sides)) else [])],
            "parts": self._parts(),
            "colors": COLORS,
        }

    def _parts(self) -> list[str]:
        """What the legend names where rows are parts of something; empty where they are operators."""
        if all(side.is_campaign for side in self.sides):
            return list(CAMPAIGN_PARTS)
        served = any(is_served(side.run) for side in self.sides)
        return ["compute", *REQUEST_PARTS] if served else []

    def side_of(self, number: int, edits: list[str]) -> ShownRun:
        """A run by its number; the one after the last is the first one under edits."""
        if number < len(self.sides):
            return self.sides[number]
        return self.editing.side(edits)

    def query(self, side: ShownRun, sql: str) -> dict[str, Any]:
        """The first rows that a SELECT gives, as texts."""
        table = query(side.run, sql, _QUERIED + 1)
        rows = rows_of(table.slice(0, _QUERIED))
        return {
            "columns": table.column_names,
            "rows": [["" if value is None else str(value) for value in row] for row in rows],
            "more": table.num_rows > _QUERIED,
        }

    def flame(self, side: ShownRun, rank: int, begin: int, end: int) -> dict[str, Any]:
        """The calls of a rank between two times as parallel lists, depth first; times in ns."""
        origin = side.origin
        analyzed = side.findings.analyzed
        waits = analyzed.waiting_times(rank) if analyzed is not None else ()
        calls = call_tree(side.view(rank), begin + origin, end + origin, _LEAST, waits)
        return {
            "rank": rank,
            "name": [short(c.name, 120) for c in calls],
            "depth": [c.depth for c in calls],
            "time": [c.time_ns for c in calls],
            "count": [c.count for c in calls],
            "kind": [c.kind for c in calls],
        }

    def network(self, side: ShownRun, begin: int, end: int) -> dict[str, Any]:
        """The map of the machine between two times, as HTML."""
        use = links_use(side.run, begin + side.origin, end + side.origin)
        if use is None:
            raise ConfigError(f"{side.name} says nothing of links")
        stretch = f"from {time_text(begin)} to {time_text(end)}, what the timeline shows"
        return {"markup": str(network_map(use, stretch))}

    def empty_tabs(self) -> list[str]:
        """Tabs without content; none is known to be empty before the analyses are done."""
        analyses = [s.findings.analyzed.analysis for s in self.sides if s.findings.analyzed]
        if len(analyses) < len(self.sides):
            return []
        if self._empty is None:
            makers = {name: SECTIONS[name][1] for name in self._sections()}
            self._empty = [
                name
                for name, make in makers.items()
                if not any(str(join(*make(analysis))) for analysis in analyses)
            ]
        return self._empty

    def _sections(self) -> list[str]:
        """The tabs that at least one of the runs has."""
        runs = [side.run for side in self.sides]
        return [n for n in SECTIONS if n not in _ONLY_OF or any(map(_ONLY_OF[n], runs))]

    @property
    def is_pair(self) -> bool:
        """Whether two runs are compared."""
        return len(self.sides) == 2 and not self.together

    # --- two runs -------------------------------------------------------------------------------

    def _paired(self, rank: int) -> tuple[Paired, Paired] | None:
        """The rows of a rank paired with the other run's; None if only one run has the rank."""
        if not self.is_pair or any(rank not in side.run.bindings for side in self.sides):
            return None
        a, b = self.sides
        key = (a.key(rank), b.key(rank))
        return self._pairs.get(key, lambda: pair(a.view(rank), b.view(rank)))

    def changes(self, side: ShownRun, rank: int) -> I8:
        """The RowChange of each row of this run's rank."""
        paired = self._paired(rank)
        if paired is None:
            return np.full(len(side.view(rank)), RowChange.ALONE, np.int8)
        return paired[self.sides.index(side)].change

    def codes(self, paint: str, side: ShownRun, rank: int) -> I8 | None:
        """The code of each row of a rank under a way to colour it; None for the kinds of rows."""
        if paint == "change" and side in self.sides:
            return self.changes(side, rank)
        return codes_by(paint, side.view(rank)) if paint in ("class", "name") else None

    def twin(self, side: ShownRun, rank: int, row: int) -> dict[str, Any] | None:
        """The twin of a row in the other run, and how it changed; None if only one run has the rank."""
        paired = self._paired(rank) if side in self.sides else None
        if paired is None:
            return None
        number = self.sides.index(side)
        other_side, mine = 1 - number, paired[number]
        change = RowChange(int(mine.change[row]))
        change_name = change.name.lower()
        if change is RowChange.ALONE:
            change_name = "added" if number else "removed"
        twin = int(mine.twin[row])
        node = brief(self.sides[other_side], rank, twin) if twin >= 0 else None
        return {"side": other_side, "change": change_name, "node": node}

    # --- analysis -------------------------------------------------------------------------------

    def progress(self) -> list[dict[str, Any]]:
        """The progress of each run's analysis; does not start one."""
        return [
            {"state": f.state, "done": f.done, "total": f.total, "error": f.error}
            for f in (side.findings for side in self.sides)
        ]

    def path(self, side: ShownRun, begin: int, end: int) -> dict[str, Any]:
        """The longest segments of the critical path between two times, in order; starts the analysis."""
        side.findings.start()
        analyzed = side.findings.analyzed
        if analyzed is None:
            return {"state": side.findings.state, "error": side.findings.error}
        path, origin = analyzed.analysis.critical_path, side.origin
        segments, count = analyzed.longest(begin + origin, end + origin, _PATH_SHOWN)
        return {
            "state": "done",
            "length": path.length_ns,
            "changes": path.rank_changes,
            "whats": analyzed.whats,
            "attribution": list(path.attribution.items()),
            "count": count,
            "segments": [
                {
                    "rank": s.rank,
                    "row": s.row,
                    "name": s.name,
                    "what": s.what,
                    "start": s.start_ns - origin,
                    "length": s.end_ns - s.start_ns,
                }
                for s in segments
            ],
        }

    def section(self, number: int, name: str) -> dict[str, Any]:
        """The content of a tab as HTML, with all names escaped; starts the analyses that it needs."""
        if name not in SECTIONS and not (name == _COMPARISON and self.is_pair):
            raise ConfigError(f"no tab {name!r}; there are {', '.join(SECTIONS)}")
        needed_sides = self.sides if name == _COMPARISON else [self.sides[number]]
        for side in needed_sides:
            side.findings.start()
        analyses = [
            side.findings.analyzed.analysis for side in needed_sides if side.findings.analyzed
        ]
        if len(analyses) < len(needed_sides):
            waiting = next(side.findings for side in needed_sides if not side.findings.analyzed)
            return {"state": waiting.state, "error": waiting.error}
        markup = (
            comparison_section(self._compared(*analyses))
            if name == _COMPARISON
            else join(*SECTIONS[name][1](analyses[0]))
        )
        return {"state": "done", "markup": str(markup), "origin": needed_sides[0].origin}

    def _compared(self, a: Analysis, b: Analysis) -> Comparison:
        if self._comparison is None:
            self._comparison = compare_analyses([a], [b])
        return self._comparison

    # --- files ----------------------------------------------------------------------------------

    def write_window(
        self, side: ShownRun, ranks: list[int], window: TimeWindow, file: Path
    ) -> None:
        """Writes the timeline of these ranks in this window as a file for Perfetto."""
        if not ranks:
            raise ConfigError("no ranks are shown")
        run = side.run.select_ranks(ranks)
        assert isinstance(run, Run)
        begin, end = window.begin + side.origin, window.end + side.origin
        write_timeline(run, file, TimelineOptions(window=(begin, end)))


def _has_links(side: ShownRun) -> bool:
    table = side.run.counters.get("links")
    return table is not None and table.num_rows > 0


def _side_summary(side: ShownRun) -> dict[str, Any]:
    return {
        "name": side.name,
        "facts": " · ".join(_unbroken(k, v) for k, v in facts_of(side.run).items()),
        "notes": side.notes,
        "folds": [[f.first, len(f.ranks), _fold_text(side, f)] for f in side.folds],
        "names": {r: side.run.rank_name(r) for r in side.run.ranks} if side.run.actors else {},
    }


def _unbroken(label: str, text: str) -> str:
    """A label and the first word of its text, which no line of the page parts."""
    whole = label.replace(" ", "\N{NO-BREAK SPACE}")
    return f"{whole}\N{NO-BREAK SPACE}{text}".strip() if label else text


def _fold_text(side: ShownRun, fold: Fold) -> str:
    """What the page calls ranks that are alike."""
    return side.run.rank_name(fold.first) if len(fold.ranks) == 1 else ranks_text(fold.ranks)
