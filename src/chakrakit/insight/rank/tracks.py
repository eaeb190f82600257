"""Rows of a rank laid on tracks where nothing overlaps that is not nested: what timelines can show.

A lane (stream, engine, host thread) is one track if its rows are serial or properly nested; what would
overlap goes to further tracks of the same lane.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.insight.rank.view import Kind, RankView
from chakrakit.trace.timing import SLACK_NS

_USUAL_DEPTH = 100


@dataclass(frozen=True, eq=False)
class Track:
    """A track of a lane: its number in the lane (0 for most), and whether its rows nest."""

    lane: str
    number: int
    on_host: bool
    kind: Kind
    """Of its first row."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Rows in order of (track, start), their tracks, and their ends as they are to be shown.

    `depth` is how many rows are around each: 0 on serial tracks. Rounding may let an inner row end
    after the one around it; its `end` is cut to that.
    """

    tracks: list[Track]
    row: I64
    track: I32
    depth: I32
    start: I64
    end: I64


def tracks_of(view: RankView) -> Tracks:
    """All rows that ran, on tracks."""
    lane, names = view.lanes
    rows = _by_lane(view, np.flatnonzero(view.ran & (view.kind != Kind.NONE)))
    number = np.zeros(len(rows), np.int32)
    depth = np.zeros(len(rows), np.int32)
    end = view.end[rows].copy()
    bounds = (
        np.flatnonzero(np.r_[True, lane[rows[1:]] != lane[rows[:-1]], True])
        if len(rows)
        else np.zeros(1, int)
    )
    tracks: list[Track] = []
    for a, b in itertools.pairwise(bounds):
        on_host = bool(view.on_host[rows[a]])
        start = view.start[rows[a:b]]
        level = _host(start, end[a:b], depth[a:b]) if on_host else _levels(start, end[a:b])
        number[a:b] = len(tracks) + level
        kind = Kind(int(view.kind[rows[a]]))
        tracks += [
            Track(names[lane[rows[a]]], i, on_host, kind) for i in range(int(level.max()) + 1)
        ]
    if (number[1:] < number[:-1]).any():
        order = np.argsort(number, kind="stable")
        rows, number, depth, end = rows[order], number[order], depth[order], end[order]
    return Tracks(tracks, rows, number, depth, view.start[rows], end)


def _by_lane(view: RankView, rows: I64) -> I64:
    """Rows in order of lane and start. On a thread what is around comes first; else what is done first."""
    lane = view.lanes[0]
    # Recorders mostly write in order of start: then a sort by lane, which is far cheaper, is enough.
    few = len(view.lanes[1]) < 2**15
    ordered = rows[np.argsort(lane[rows].astype(np.int16 if few else np.int32), kind="stable")]
    same = lane[ordered[1:]] == lane[ordered[:-1]]
    if not (same & (view.start[ordered[1:]] <= view.start[ordered[:-1]])).any():
        return ordered
    ends = np.where(view.on_host[rows], -view.end[rows], view.end[rows])
    return rows[np.lexsort((rows, ends, view.start[rows], lane[rows]))]


def _host(start: I64, end: I64, depth: I32) -> I32:
    """Nests a thread's rows in place; those that outlive what they began in go to further tracks."""
    parent, astray = core.nest(np.zeros(len(start), np.int32), start, end, SLACK_NS)
    loose = astray.astype(np.bool_)
    level = np.zeros(len(start), np.int32)
    inner = np.flatnonzero((parent >= 0) & ~loose)
    known = ~np.isin(np.arange(len(start)), inner)
    for _ in range(_USUAL_DEPTH):
        ready = known[parent[inner]]
        rows, inner = inner[ready], inner[~ready]
        depth[rows] = depth[parent[rows]] + 1
        end[rows] = np.maximum(np.minimum(end[rows], end[parent[rows]]), start[rows])
        known[rows] = True
        if not len(inner):
            break
    # Rows are sorted so that a parent comes before its children: the rest are known in that order.
    for i in inner.tolist():
        depth[i] = depth[parent[i]] + 1
        end[i] = max(min(end[i], end[parent[i]]), start[i])
    if loose.any():
        level[loose] = 1 + _levels(start[loose], end[loose])
    return level


def _levels(start: I64, end: I64) -> I32:
    """The lowest track that is free for each of these rows, which are in order of start."""
    level = np.zeros(len(start), np.int32)
    reach = np.maximum.accumulate(end)
    if not (start[1:] < reach[:-1]).any():
        return level
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for i, (a, b) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= a:
            heapq.heappush(free, heapq.heappop(busy)[1])
        mine = heapq.heappop(free) if free else len(busy)
        level[i] = mine
        heapq.heappush(busy, (b, mine))
    return level


@dataclass(frozen=True, eq=False)
class Borders:
    """Begins and ends of all rows, in the order a timeline must see them.

    Ascending in time; of equal times what ends comes before what begins, inner ends before outer
    ones, outer begins before inner ones.
    """

    item: I64
    """The place in Tracks.row."""
    begins: Mask
    time: I64


def borders(tracks: Tracks) -> Borders:
    """Serial tracks alternate between begin and end; nested ones are sorted."""
    nested = np.array([t.on_host for t in tracks.tracks] or [False])[tracks.track]
    serial = np.flatnonzero(~nested)
    item = np.repeat(serial, 2)
    begins = np.tile([True, False], len(serial))
    inner, inner_begins = _nested_borders(tracks, np.flatnonzero(nested))
    item, begins = np.concatenate([item, inner]), np.concatenate([begins, inner_begins])
    time = np.where(begins, tracks.start[item], tracks.end[item])
    order = np.argsort(time, kind="stable")
    return Borders(item[order], begins[order], time[order])


def _nested_borders(tracks: Tracks, rows: I64) -> tuple[I64, Mask]:
    item = np.concatenate([rows, rows])
    begins = np.repeat([True, False], len(rows))
    time = np.where(begins, tracks.start[item], tracks.end[item])
    empty = tracks.start[item] == tracks.end[item]
    late = begins | empty
    depth = np.where(late, tracks.depth[item], -tracks.depth[item].astype(np.int64))
    order = np.lexsort((~begins, item, depth, late, time, tracks.track[item]))
    return item[order], begins[order]
