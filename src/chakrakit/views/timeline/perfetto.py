"""Perfetto's own format: nanosecond slices on a tree of tracks, arrows and counters.

The tree is cluster › node › rank › stream, thread or counter. Names are interned; packets are written
rank by rank, so that memory is bounded by the largest rank. Opens at ui.perfetto.dev.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.insight.communication import Flows
from chakrakit.insight.rank import Borders, Track, borders
from chakrakit.trace.codecs import Exported
from chakrakit.trace.counters import Series
from chakrakit.trace.files import open_output
from chakrakit.trace.model import field_bytes, varint
from chakrakit.trace.sets import Run
from chakrakit.views.timeline.timeline import RankTimeline, TimelineOptions, rank_timelines

_SEQUENCE = 1
_BEGIN, _END, _COUNTER = 1, 2, 4
_CLEARED, _NEEDED = 1, 2
_EXPLICIT = 3
"""Children of a track are shown by their rank, not by name."""
_BYTES = 3


def _number(field: int, value: int) -> bytes:
    """A field with a number; zero too, which the reader tells from absence."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def _message(field: int, *parts: bytes) -> bytes:
    """A field with bytes: a message made of its fields."""
    return field_bytes(field, b"".join(parts))


def _text(field: int, value: str) -> bytes:
    """A field with text; what is not valid Unicode is replaced."""
    return _message(field, value.encode("utf-8", "replace"))


class _Names:
    """Interned names: each is written once, before its first use."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._fresh: list[tuple[int, str]] = []

    def numbers(self, texts: list[str]) -> I32:
        """A number above 0 for each text."""
        out = np.empty(len(texts), np.int32)
        for i, name in enumerate(texts):
            if name not in self._known:
                self._known[name] = len(self._known) + 1
                self._fresh.append((self._known[name], name))
            out[i] = self._known[name]
        return out

    def packet(self) -> bytes:
        """The names not written yet; nothing where there are none."""
        if not self._fresh:
            return b""
        names = [_message(2, _number(1, i), _text(2, name)) for i, name in self._fresh]
        self._fresh = []
        return _packet(_message(12, *names), _number(13, _NEEDED))


def _packet(*fields: bytes) -> bytes:
    return _message(1, _number(10, _SEQUENCE), *fields)


def _track(uuid: int, parent: int, name: str, order: int, *more: bytes) -> bytes:
    fields = [_number(1, uuid), _text(2, name)]
    if parent:
        fields.append(_number(5, parent))
    return _packet(_message(60, *fields, _number(11, _EXPLICIT), _number(12, order), *more))


def write_perfetto(
    run: Run, path: str | os.PathLike[str], options: TimelineOptions | None = None
) -> Exported:
    """Writes the run; `.gz` compresses. Counts slices as nodes and arrows as edges."""
    with open_output(path) as stream:
        return _Writer(stream, run, options or TimelineOptions()).write()


class _Writer:
    """Gives out track numbers and writes packets in the order readers need them."""

    def __init__(self, stream: BinaryIO, run: Run, options: TimelineOptions) -> None:
        self.stream, self.run, self.options = stream, run, options
        self.names = _Names()
        self.uuid = 0
        self.nodes: dict[int, int] = {}

    def write(self) -> Exported:
        """Everything, counted."""
        self.stream.write(_packet(_number(13, _CLEARED)))
        root = self._describe(0, self.run.card.name or "run", 0)
        found = Exported(0, 0, 0)
        for line in rank_timelines(self.run, self.options):
            rank = line.view.rank
            parent = self._describe(self._node(root, rank), line.label, rank)
            found.nodes += self._slices(line, parent)
            found.edges += int(line.flows.stops.sum())
            found.folded += line.ranks - 1
            for i, counter in enumerate(line.counters):
                self._counter(counter, parent, i)
        return found

    def _describe(self, parent: int, name: str, order: int, *more: bytes) -> int:
        self.uuid += 1
        self.stream.write(_track(self.uuid, parent, name, order, *more))
        return self.uuid

    def _node(self, root: int, rank: int) -> int:
        """The machine a rank is in, where their size is known."""
        if not self.options.node_size:
            return root
        node = rank // self.options.node_size
        if node not in self.nodes:
            self.nodes[node] = self._describe(root, f"node {node}", node)
        return self.nodes[node]

    def _slices(self, line: RankTimeline, parent: int) -> int:
        tracks = line.tracks
        uuids = np.array(
            [self._describe(parent, _title(t), i) for i, t in enumerate(tracks.tracks)] or [0],
            np.int32,
        )
        codes, texts = line.view.names
        name = self.names.numbers(texts)[codes] if texts else np.zeros(0, np.int32)
        self.stream.write(self.names.packet())
        order = borders(tracks)
        rows = tracks.row[order.item]
        flows = _flow_columns(line.flows, rows, order, len(line.view))
        self.stream.write(
            core.perfetto_packets(
                order.time,
                np.where(order.begins, _BEGIN, _END).astype(np.int8),
                uuids[tracks.track[order.item]],
                np.where(order.begins, name[rows], 0).astype(np.int32),
                np.zeros(len(rows), np.int64),
                *flows,
                _SEQUENCE,
            )
        )
        return len(tracks.row)

    def _counter(self, counter: Series, parent: int, order: int) -> None:
        unit = _number(3, _BYTES) if counter.unit == "bytes" else b""
        uuid = self._describe(parent, counter.name, 1000 + order, _message(8, unit))
        n = len(counter.time_ns)
        none = np.zeros(n + 1, np.int64)
        self.stream.write(
            core.perfetto_packets(
                counter.time_ns.astype(np.int64),
                np.full(n, _COUNTER, np.int8),
                np.full(n, uuid, np.int32),
                np.zeros(n, np.int32),
                np.rint(counter.value).astype(np.int64),
                none,
                none[:0],
                none,
                none[:0],
                _SEQUENCE,
            )
        )


def _title(track: Track) -> str:
    return track.lane if not track.number else f"{track.lane} ({track.number + 1})"


def _flow_columns(flows: Flows, rows: I64, order: Borders, count: int) -> tuple[I64, I64, I64, I64]:
    """Offsets and ids of the arrows that leave, and of those that stop, at each begin."""
    place = np.full(count, -1, np.int64)
    begins = np.flatnonzero(order.begins)
    place[rows[begins]] = begins
    at = place[flows.row]
    out: list[I64] = []
    for chosen in (~flows.stops, flows.stops):
        out += _grouped(at, flows.id, chosen & (at >= 0), len(rows))
    return out[0], out[1], out[2], out[3]


def _grouped(at: I64, ids: I64, chosen: Mask, count: int) -> Iterator[I64]:
    at, ids = at[chosen], ids[chosen]
    order = np.argsort(at, kind="stable")
    yield np.concatenate([[0], np.cumsum(np.bincount(at, minlength=count))]).astype(np.int64)
    yield ids[order]
