"""Totals of what runs in an area of the timeline: some tracks of a rank, between two times."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from chakrakit.views.app import row_parts
from chakrakit.views.app.lod import SliceLine
from chakrakit.views.app.shown_run import ShownRun

_NAMES = 30
"""Names that an answer lists, those with most time first."""


def totals(side: ShownRun, rank: int, begin: int, end: int, tracks: range) -> dict[str, Any]:
    """Time and count by kind and by name; what is nested counts at every depth by name, once by kind."""
    lines = side.lines(rank)
    by_name: Counter[int] = Counter()
    counts: Counter[int] = Counter()
    by_kind: Counter[int] = Counter()
    for number in range(tracks.start, min(tracks.stop, len(lines.tracks))):
        for depth, line in enumerate(lines.tracks[number].depths):
            inside, nanos = _inside(line, begin, end)
            names = lines.names[0][line.row[inside]]
            _add(by_name, names, nanos)
            counts.update(Counter(names.tolist()))
            if depth == 0:
                _add(by_kind, line.code[inside].astype(np.int64), nanos)
    short, kinds = lines.short_names, row_parts.legend()
    return {
        "span": end - begin,
        "slices": sum(counts.values()),
        "kinds": [[kinds[code]["name"], ns] for code, ns in by_kind.most_common()],
        "names": [[short[code], ns, counts[code]] for code, ns in by_name.most_common(_NAMES)],
    }


def _inside(line: SliceLine, begin: int, end: int) -> tuple[slice, Any]:
    """The slices that lie partly between two times, and for how long."""
    inside = slice(int(np.searchsorted(line.end, begin)), int(np.searchsorted(line.start, end)))
    nanos = np.minimum(line.end[inside], end) - np.maximum(line.start[inside], begin)
    return inside, np.maximum(nanos, 0)


def _add(totals: Counter[int], codes: Any, nanos: Any) -> None:
    for code in np.unique(codes).tolist():
        totals[code] += int(nanos[codes == code].sum())
