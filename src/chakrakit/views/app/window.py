"""What the browser draws of one rank in a window of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrakit.arrays import I8, I32, I64
from chakrakit.trace.timing import Intervals
from chakrakit.views.app.findings import AnalyzedRun
from chakrakit.views.app.lod import SliceLine, TimeWindow
from chakrakit.views.app.rank_lines import RankLines
from chakrakit.views.app.shown_run import ShownRun

_WHOLE_SHARE = 255
"""Shares are sent as whole numbers from 0 to this: one byte, as finely as a screen shows shades."""


def rank_layout(side: ShownRun, rank: int) -> dict[str, Any]:
    """The tracks of a rank and their depths, and the ranks that do the same."""
    lines = side.lines(rank)
    return {
        "ranks": side.alike(rank),
        "nodes": lines.nodes,
        "too_deep": lines.too_deep,
        "span": lines.span,
        "figures": [
            {"title": f.title, "unit": f.unit, "peak": f.peak, "limit": f.limit}
            for f in side.figures(rank)
        ],
        "tracks": [
            {"title": t.title, "depth": len(t.depths), "host": t.track.on_host}
            for t in lines.tracks
        ],
    }


def rank_window(
    side: ShownRun, rank: int, window: TimeWindow, tracks: range, code: I8 | None = None
) -> dict[str, Any]:
    """The strip of a rank, the lines of some of its tracks, and the critical path once it is known.

    Times are ns since the window's begin. `code` is the class of each row; None takes the rows' kinds.
    """
    lines = side.lines(rank)
    analyzed = side.findings.analyzed
    names = _Names(lines)
    drawn = [
        _line(_coded(line, code), window, names, analyzed, rank) | {"track": t, "depth": d}
        for t in range(tracks.start, min(tracks.stop, len(lines.tracks)))
        for d, line in enumerate(lines.tracks[t].depths)
    ]
    return {
        "begin": window.begin,
        "span": lines.span,
        "step": window.step,
        "figures": [f.highest(window) for f in side.figures(rank)],
        "strip": [_filled(kind, window) for kind in side.strip(rank)],
        "lines": drawn,
        "names": names.texts,
        "path": _path(side, rank, window, analyzed) if analyzed else None,
    }


def _coded(line: SliceLine, code: I8 | None) -> SliceLine:
    return line if code is None else SliceLine(line.start, line.end, line.row, code[line.row])


class _Names:
    """The names that an answer needs, numbered in order of first use."""

    def __init__(self, lines: RankLines) -> None:
        self._lines = lines
        self._number: dict[int, int] = {}
        self.texts: list[str] = []

    def of(self, rows: I32) -> list[int]:
        """The names of these rows as indices into `texts`."""
        codes = self._lines.names[0][rows].tolist()
        for code in codes:
            if code not in self._number:
                self._number[code] = len(self.texts)
                self.texts.append(self._lines.short_names[code])
        return [self._number[code] for code in codes]


def _line(
    line: SliceLine, window: TimeWindow, names: _Names, analyzed: AnalyzedRun | None, rank: int
) -> dict[str, Any]:
    detail = line.window(window)
    rows = line.row[detail.at]
    return {
        "start": (line.start[detail.at] - window.begin).tolist(),
        "length": (line.end[detail.at] - line.start[detail.at]).tolist(),
        "row": rows.tolist(),
        "code": line.code[detail.at].tolist(),
        "name": names.of(rows),
        "path": analyzed.on_path(rank, rows).tolist() if analyzed else [],
        "wait": analyzed.waiting(rank, rows).tolist() if analyzed else [],
        "bucket": detail.bucket.tolist(),
        "share": _shares(detail.busy, np.diff(window.borders)[detail.bucket]),
        "most": detail.code.tolist(),
        "count": detail.count.tolist(),
    }


def _filled(kind: Intervals, window: TimeWindow) -> list[int]:
    """How much of each part of the window these times fill."""
    a, b = window.borders[:-1], window.borders[1:]
    return _shares(kind.share_of(a, b), b - a)


def _shares(busy: I64, length: I64) -> list[int]:
    """The busy share of each part, from 0 to _WHOLE_SHARE; above 0 if it is busy at all."""
    share = np.ceil(np.minimum(busy / np.maximum(length, 1), 1) * _WHOLE_SHARE)
    shares: list[int] = share.astype(np.int64).tolist()
    return shares


def _path(
    side: ShownRun, rank: int, window: TimeWindow, analyzed: AnalyzedRun
) -> dict[str, Any] | None:
    line = analyzed.path(rank)
    if line is None:
        return None
    run_window = TimeWindow(window.begin + side.origin, window.end + side.origin, window.buckets)
    detail = line.window(run_window)
    return {
        "start": (line.start[detail.at] - run_window.begin).tolist(),
        "length": (line.end[detail.at] - line.start[detail.at]).tolist(),
        "code": line.code[detail.at].tolist(),
        "bucket": detail.bucket.tolist(),
        "most": detail.code.tolist(),
    }
