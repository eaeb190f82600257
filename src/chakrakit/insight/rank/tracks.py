"""Rows of a rank laid out on tracks, as timelines need them: rows of a track nest or do not overlap.

A lane (stream, engine, host thread) is one track if its rows are serial or properly nested; what would
overlap goes to further tracks of the same lane. A row lies inside another one on a track if, and only if, the
trace says that it runs inside of it.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.insight.rank.view import RankView, RowKind
from chakrakit.trace.model import SLACK_NS, depth_of, nearest_kept


@dataclass(frozen=True, eq=False)
class Track:
    """A track of a lane: its number in the lane (0 for most); rows nest on tracks of the host."""

    lane: str
    number: int
    on_host: bool
    kind: RowKind
    """The kind of its first row."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Rows in order of (track, start), with the track, depth, start and end to draw each at.

    `depth` is how many rows are around a row: 0 on serial tracks. If rounding lets an inner row end after the
    one around it, its `end` is cut.
    """

    tracks: list[Track]
    row: I64
    track: I32
    depth: I32
    start: I64
    end: I64


def tracks_of(view: RankView) -> Tracks:
    """Lays out all rows of a rank that ran."""
    names = view.lanes[1]
    rows = _by_lane(view, np.flatnonzero(view.kind != RowKind.NONE))
    lane, starts, end = view.lanes[0][rows], view.start[rows], view.end[rows]
    number = np.zeros(len(rows), np.int32)
    depth = np.zeros(len(rows), np.int32)
    bounds = (
        np.flatnonzero(np.r_[True, lane[1:] != lane[:-1], True]) if len(rows) else np.zeros(1, int)
    )
    tracks: list[Track] = []
    parent, place = _drawn_parents(view), np.empty(len(view), np.int32)
    for a, b in itertools.pairwise(bounds):
        on_host = bool(view.on_host[rows[a]])
        start = starts[a:b]
        if on_host:
            place[rows[a:b]] = np.arange(b - a)
            outer = parent[rows[a:b]]
            outer = np.where(outer >= 0, place[outer], -1).astype(np.int32)
            level = _host(outer, start, end[a:b], depth[a:b])
        else:
            level = _levels(start, end[a:b])
        number[a:b] = len(tracks) + level
        kind = RowKind(int(view.kind[rows[a]]))
        tracks += [Track(names[lane[a]], i, on_host, kind) for i in range(int(level.max()) + 1)]
    if (number[1:] < number[:-1]).any():
        order = np.argsort(number, kind="stable")
        rows, number, depth = rows[order], number[order], depth[order]
        starts, end = starts[order], end[order]
    return Tracks(tracks, rows, number, depth, starts, end)


def _by_lane(view: RankView, rows: I64) -> I64:
    """Sorts rows by lane and start; at equal starts outer rows first on threads, else early ends."""
    lane, start = view.lanes[0][rows], view.start
    # Recorders mostly write in order of start: then a sort by lane, which is far cheaper, is enough.
    few = len(view.lanes[1]) < 2**15
    order = np.argsort(lane.astype(np.int16 if few else np.int32), kind="stable")
    ordered = rows[order]
    by_lane, at = lane[order], start[ordered]
    if not ((by_lane[1:] == by_lane[:-1]) & (at[1:] <= at[:-1])).any():
        return ordered
    ends = np.where(view.on_host[rows], -view.end[rows], view.end[rows])
    return rows[np.lexsort((rows, ends, start[rows], lane))]


def _drawn_parents(view: RankView) -> I32:
    """For each row, the nearest drawn row around it if that is on the same lane; else -1."""
    if view.parent.max(initial=-1) < 0:
        return view.parent
    outer = nearest_kept(view.parent, view.kind != RowKind.NONE)
    lane = view.lanes[0]
    return np.where((outer >= 0) & (lane[outer] == lane), outer, -1)


def _host(parent: I32, start: I64, end: I64, depth: I32) -> I32:
    """Lays out a thread's rows inside their parents and returns the track of each.

    Rows that do not fit inside their parent go to further tracks, with the rows inside them. Depths and ends
    are changed in place.
    """
    level = np.zeros(len(start), np.int32)
    loose = _loose(parent, start, end)
    top = np.where(loose, np.arange(len(start)), -1)
    for rows in _by_depth(np.flatnonzero((parent >= 0) & ~loose), parent):
        outer = parent[rows]
        depth[rows], top[rows] = depth[outer] + 1, top[outer]
        end[rows] = np.maximum(np.minimum(end[rows], end[outer]), start[rows])
    if loose.any():
        level[loose] = 1 + _levels(start[loose], end[loose])
        level = np.where(top >= 0, level[top], 0).astype(np.int32)
    return level


def _by_depth(rows: I64, parent: I32) -> list[I64]:
    """Splits rows by depth, outer ones first."""
    depth = depth_of(parent)[rows]
    order = np.argsort(depth, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(depth[order])) + 1)


def _loose(parent: I32, start: I64, end: I64) -> Mask:
    """Rows that cannot be drawn inside their parent, or not beside the other rows in it.

    They outlive the parent, their times lie outside it, or the next row began before they ended, as happens
    when a thread starts something asynchronous.
    """
    around, outlives = core.nest(np.zeros(len(start), np.int32), start, end, SLACK_NS)
    if not outlives.any() and (around == parent).all():
        return np.zeros(len(start), np.bool_)
    apart = (start < start[parent]) | (start > end[parent]) | (end > end[parent] + SLACK_NS)
    loose = apart & (parent >= 0)
    rows = np.flatnonzero((end > start) & ~loose)
    rows = rows[np.argsort(parent[rows], kind="stable")]
    beside = parent[rows[1:]] == parent[rows[:-1]]
    loose[rows[:-1][beside & (end[rows[:-1]] > start[rows[1:]])]] = True
    return loose


def _levels(start: I64, end: I64) -> I32:
    """The lowest track that is free for each of these rows, which are in order of start."""
    level = np.zeros(len(start), np.int32)
    # No row ends before it starts, so that ends ascend where each row starts after the one before it.
    if not (start[1:] < end[:-1]).any():
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
    """Begins and ends of all rows in the order that a timeline needs.

    They ascend in time. At equal times, ends come before begins, inner ends before outer ones, and outer
    begins before inner ones.
    """

    item: I64
    """The row, as an index into Tracks.row."""
    begins: Mask
    time: I64


def borders(tracks: Tracks) -> Borders:
    """The borders of all tracks: on serial ones begins and ends alternate, on nested ones they are sorted."""
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
