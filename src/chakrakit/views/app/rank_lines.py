"""One rank, ready to be drawn at any zoom: one line per track and depth, and a strip of its device's work."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I8, I32, I64
from chakrakit.insight.rank import RankView, RowKind, Track, Tracks, tracks_of
from chakrakit.trace.timing import Intervals
from chakrakit.views.app import row_parts
from chakrakit.views.app.lod import SliceLine
from chakrakit.views.app.row_parts import Origins

_DEEPEST = 200
"""Rows nested deeper than this are not drawn: each depth is a line on the screen and in every answer."""
STRIP = (RowKind.COMPUTE, RowKind.COMM, RowKind.COPY)
"""What a strip shows: computation, then communication and copies that those before do not cover."""


@dataclass(frozen=True, eq=False)
class TrackLines:
    """A track: the lines of its depths, outermost first."""

    track: Track
    depths: list[SliceLine]
    lane: str
    """What the page calls its lane."""

    @property
    def title(self) -> str:
        """The name of its lane; further tracks of a lane are numbered."""
        return self.lane + (f" ({self.track.number + 1})" if self.track.number else "")


@dataclass(frozen=True, eq=False)
class RankLines:
    """A rank's tracks, times in ns since the run's begin, and where each row is drawn."""

    nodes: int
    span: tuple[int, int]
    tracks: list[TrackLines]
    strip: list[Intervals]
    names: tuple[I32, list[str]]
    too_deep: int
    """Rows with more around them than can be drawn."""

    @property
    def bytes(self) -> int:
        """About how much memory this takes: 48 bytes a row."""
        return 48 * self.nodes

    def row_at(self, track: int, depth: int, moment: int) -> int:
        """The row of a line that is nearest to a time."""
        line = self.tracks[track].depths[depth]
        at = int(np.searchsorted(line.start, moment, side="right"))
        near = [i for i in (at - 1, at) if 0 <= i < len(line)]
        distance = {i: max(line.start[i] - moment, moment - line.end[i]) for i in near}
        return int(line.row[min(near, key=lambda i: distance[i])])

    @cached_property
    def place(self) -> tuple[I32, I32]:
        """Track and depth of each row; -1 for rows that are not drawn. No picture needs it, only clicks."""
        track, depth = np.full(self.nodes, -1, np.int32), np.full(self.nodes, -1, np.int32)
        for t, lines in enumerate(self.tracks):
            for d, line in enumerate(lines.depths):
                track[line.row], depth[line.row] = t, d
        return track, depth

    @cached_property
    def short_names(self) -> list[str]:
        """The names cut to what fits beside a slice."""
        from chakrakit.insight.rank import short

        return [short(name, 120) for name in self.names[1]]


def lines_of(view: RankView, origin: int, origins: Origins) -> RankLines:
    """The lines of a rank.

    The code of a slice is its RowKind, or the part of a request or of a campaign that it is.
    """
    tracks = tracks_of(view)
    deep = int((tracks.depth >= _DEEPEST).sum())
    if deep:
        tracks = _shallow(tracks)
    for times in (tracks.start, tracks.end):
        times -= origin  # in place: nobody else has these tracks
    first, last = view.span
    return RankLines(
        len(view),
        (first - origin, last - origin),
        _track_lines(view, tracks, origins),
        campaign_strip(view, origin) if origins.campaign else strip_of(view, origin),
        row_parts.names(view),
        deep,
    )


def _shallow(tracks: Tracks) -> Tracks:
    drawable = tracks.depth < _DEEPEST
    return Tracks(
        tracks.tracks,
        tracks.row[drawable],
        tracks.track[drawable],
        tracks.depth[drawable],
        tracks.start[drawable],
        tracks.end[drawable],
    )


def _track_lines(view: RankView, tracks: Tracks, origins: Origins) -> list[TrackLines]:
    codes = row_parts.codes(view, campaign=origins.campaign)
    bounds = np.searchsorted(tracks.track, np.arange(len(tracks.tracks) + 1))
    out = []
    for track, (a, b) in zip(tracks.tracks, itertools.pairwise(bounds.tolist()), strict=True):
        depth = tracks.depth[a:b]
        deepest = int(depth.max(initial=0))
        by_depth = (
            [np.flatnonzero(depth == d) + a for d in range(deepest + 1)]
            if deepest
            else [slice(a, b)]
        )
        lane = row_parts.title(track.lane, view, tracks.row[a:b], origins)
        out.append(TrackLines(track, [_line(tracks, codes, at) for at in by_depth], lane))
    return out


def _line(tracks: Tracks, codes: I8, at: I64 | slice) -> SliceLine:
    row = tracks.row[at]
    return SliceLine(tracks.start[at], tracks.end[at], row.astype(np.int32), codes[row])


def with_waits(strip: list[Intervals], waits: Iterable[Intervals]) -> list[Intervals]:
    """A strip whose communication is less what each of `waits` holds of it, and these parts."""
    compute, talk, copies = strip
    parts = []
    for waiting in waits:
        parts.append(talk & waiting)
        talk = talk - waiting
    return [compute, talk, copies, *parts]


def campaign_strip(view: RankView, origin: int) -> list[Intervals]:
    """When the job trains, and when it waits and does all else that is no progress."""

    def during(*names: str) -> Intervals:
        rows = np.flatnonzero(view.named(lambda name: name in names))
        return Intervals.of(view.start[rows] - origin, view.end[rows] - origin)

    nothing = during()
    rest = during("checkpoint", "lost steps", "detection", "restart")
    return [during("train"), nothing, nothing, during("waiting"), rest]


def strip_of(view: RankView, origin: int) -> list[Intervals]:
    """When each kind of STRIP is at work and none before it is."""
    covered = Intervals.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    out = []
    for kind in STRIP:
        busy = view.busy(kind)
        out.append(busy - covered)
        covered = covered | busy
    return [Intervals(i.start - origin, i.end - origin) for i in out]
