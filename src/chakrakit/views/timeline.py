"""Timelines of a run as files for Perfetto and Chrome: tracks, arrows and counters of every rank."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import BinaryIO, Literal

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.insight.communication import (
    RankArrows,
    communication_arrows,
    dependency_arrows,
    joined_arrows,
    match_calls,
)
from chakrakit.insight.rank import (
    KIND_NAMES,
    Borders,
    RankView,
    Track,
    Tracks,
    borders,
    rank_view,
    tracks_of,
)
from chakrakit.trace.codecs import Exported
from chakrakit.trace.files import open_output
from chakrakit.trace.memory import allocations_of
from chakrakit.trace.model import field_bytes, varint
from chakrakit.trace.sets import SCHEMAS, CounterSeries, Run


@dataclass(frozen=True)
class TimelineOptions:
    """What a timeline shows.

    flows       arrows for dependencies between tracks, messages and collectives
    memory      a counter of memory in use, where the trace accounts for it
    node_size   ranks per machine; 0 where that is not known
    window      (from, to) in ns: only rows that touch it
    every_rank  draw every rank, also where one could stand for many that are alike
    """

    flows: bool = True
    memory: bool = True
    node_size: int = 0
    window: tuple[int, int] | None = None
    every_rank: bool = False


_MEMORY = SCHEMAS["memory"]
MOST_RANKS = 64
"""In runs with more ranks, one is drawn for all with the same program and times: viewers get slow."""


@dataclass(frozen=True, eq=False)
class RankTimeline:
    """What is drawn of one rank; `ranks` is how many ranks it stands for, itself included."""

    view: RankView
    name: str
    ranks: int
    tracks: Tracks
    flows: RankArrows
    counters: list[CounterSeries]

    @property
    def label(self) -> str:
        """The name of the rank on the timeline."""
        more = f" (1 of {self.ranks:,} alike)" if self.ranks > 1 else ""
        return f"{self.name}{more}"


def drawn_ranks(run: Run, options: TimelineOptions) -> list[tuple[int, ...]]:
    """For each drawn rank, the ranks it stands for; the drawn one is first."""
    if options.every_rank or len(run) <= MOST_RANKS:
        return [(rank,) for rank in run.ranks]
    return run.folds


def rank_timelines(run: Run, options: TimelineOptions) -> Iterator[RankTimeline]:
    """What is drawn of each rank, one rank at a time; communication of all ranks is matched first."""
    drawn = drawn_ranks(run, options)
    shared, free = _arrows(run, drawn, options.window) if options.flows else ({}, 1)
    for like in drawn:
        rank = like[0]
        view = _within(rank_view(run, rank), options.window)
        parts = [_no_flows()]
        if options.flows:
            own_arrows, free = dependency_arrows(view, view.lanes[0], free)
            parts += [own_arrows, *([shared[rank]] if rank in shared else [])]
        counters = _counters(run, view, options)
        named = run.rank_name(view.rank)
        yield RankTimeline(view, named, len(like), tracks_of(view), joined_arrows(parts), counters)


def _arrows(
    run: Run, drawn: list[tuple[int, ...]], window: tuple[int, int] | None
) -> tuple[dict[int, RankArrows], int]:
    """Arrows between drawn ranks, by rank, and the next free id for an arrow."""
    matched = match_calls(run, drawn)
    drawn_calls = _touches(matched.start, matched.end, window)
    drawn_calls &= np.isin(matched.rank, [like[0] for like in drawn])
    # The other end of a message may be on a rank that this one stands for; it gets no arrow to itself.
    drawn_calls &= (matched.partner < 0) | (matched.rank[matched.partner] != matched.rank)
    return communication_arrows(matched, 1, drawn_calls), 2 * len(matched) + 2


def _within(view: RankView, window: tuple[int, int] | None) -> RankView:
    """The view with rows outside of the window marked as not having run."""
    if window is None:
        return view
    out = ~_touches(view.start, view.end, window)
    return replace(view, start=np.where(out, -1, view.start), end=np.where(out, -1, view.end))


def _touches(start: I64, end: I64, window: tuple[int, int] | None) -> Mask:
    if window is None:
        return np.ones(len(start), np.bool_)
    return (end >= window[0]) & (start <= window[1])


def _no_flows() -> RankArrows:
    none = np.zeros(0, np.int64)
    return RankArrows(none, none, none.astype(np.bool_), none.astype(np.bool_))


def _counters(run: Run, view: RankView, options: TimelineOptions) -> list[CounterSeries]:
    """All counters of a rank; memory is taken from the trace's own account where it has one."""
    series = [s for s in run.counters.series(view.rank) if s.name != _MEMORY.name]
    if not options.memory:
        return series
    if options.window is None and (allocations := allocations_of(view.trace, view.start, view.end)):
        time, value = allocations.timeline(view.start, view.end)
        return [*series, CounterSeries(_MEMORY.name, _MEMORY.unit, time, value.astype(np.float64))]
    return [*series, *(s for s in run.counters.series(view.rank) if s.name == _MEMORY.name)]


# --- Chrome's JSON trace format, which chrome://tracing, Perfetto and Kineto's tools read -----------
#
# Times are microseconds with three decimals, so that nanoseconds stay exact; every track is serial or
# properly nested, as complete (X) events on one track must be.


_BATCH = 50_000
"""Events written at once: some 5 MB of text, so that memory stays small and writes are few."""


def write_chrome(
    run: Run, path: str | os.PathLike[str], options: TimelineOptions | None = None
) -> Exported:
    """Writes the run; `.gz` compresses. Counts slices as nodes and arrows as edges."""
    counts = Exported(0, 0, 0)
    with open_output(path, binary_only=False) as stream:
        stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        stream.write(_event(ph="M", name="trace_name", pid=0, args={"name": run.card.name}))
        for line in rank_timelines(run, options or TimelineOptions()):
            _head(stream, line)
            for lines in _slices(line), _flows(line), _chrome_counters(line):
                _write(stream, lines)
            counts.nodes += len(line.tracks.row)
            counts.edges += int(line.flows.stops.sum())
            counts.folded += line.ranks - 1
        stream.write(b"\n]}\n")
    return counts


def _event(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _head(stream: BinaryIO, line: RankTimeline) -> None:
    rank = line.view.rank
    stream.write(b",\n" + _event(ph="M", name="process_name", pid=rank, args={"name": line.label}))
    stream.write(
        b",\n" + _event(ph="M", name="process_sort_index", pid=rank, args={"sort_index": rank})
    )
    for i, track in enumerate(line.tracks.tracks):
        for record, args in (
            ("thread_name", {"name": _title(track)}),
            ("thread_sort_index", {"sort_index": i}),
        ):
            stream.write(b",\n" + _event(ph="M", name=record, pid=rank, tid=i, args=args))


def _write(stream: BinaryIO, lines: Iterator[str]) -> None:
    """Writes events in batches: one write per event would cost more than the event."""
    batch: list[str] = []
    for text in lines:
        batch.append(text)
        if len(batch) == _BATCH:
            stream.write((",\n" + ",\n".join(batch)).encode())
            batch = []
    if batch:
        stream.write((",\n" + ",\n".join(batch)).encode())


def _micros(nanos: I64) -> list[str]:
    """Nanoseconds as texts of microseconds, exact because no float is involved."""
    whole, rest = np.divmod(nanos, 1000)
    return [f"{a}.{b:03d}" for a, b in zip(whole.tolist(), rest.tolist(), strict=True)]


def _slices(line: RankTimeline) -> Iterator[str]:
    tracks, view = line.tracks, line.view
    codes, texts = view.names
    names = [json.dumps(t) for t in texts]
    kinds = {kind: json.dumps(name) for kind, name in KIND_NAMES.items()}
    pid = view.rank
    columns = (
        codes[tracks.row].tolist(),
        view.kind[tracks.row].tolist(),
        tracks.track.tolist(),
        _micros(tracks.start),
        _micros(tracks.end - tracks.start),
    )
    for name, kind, tid, start, length in zip(*columns, strict=True):
        yield (
            f'{{"ph":"X","name":{names[name]},"cat":{kinds[kind]},"pid":{pid},"tid":{tid},'
            f'"ts":{start},"dur":{length}}}'
        )


def _flows(line: RankTimeline) -> Iterator[str]:
    """`s` begins an arrow, `t` passes it on, `f` ends it; each binds to the slice around its time."""
    tracks, view, flows = line.tracks, line.view, line.flows
    track_of = np.full(len(view), -1, np.int64)
    track_of[tracks.row] = tracks.track
    on_track = track_of[flows.row] >= 0
    row = flows.row[on_track]
    phase = np.where(flows.begins, 0, np.where(flows.stops, 2, 1))[on_track]
    columns = (
        flows.id[on_track].tolist(),
        phase.tolist(),
        track_of[row].tolist(),
        _micros(view.start[row]),
    )
    phases = ('"s"', '"t"', '"f","bp":"e"')
    for number, phase_code, tid, at in zip(*columns, strict=True):
        yield (
            f'{{"ph":{phases[phase_code]},"id":{number},"name":"dependency","cat":"flow",'
            f'"pid":{view.rank},"tid":{tid},"ts":{at}}}'
        )


def _chrome_counters(line: RankTimeline) -> Iterator[str]:
    for counter in line.counters:
        name, pid = json.dumps(counter.name), line.view.rank
        unit = json.dumps(counter.unit or "value")
        for at, value in zip(_micros(counter.time_ns), counter.value.tolist(), strict=True):
            yield f'{{"ph":"C","name":{name},"pid":{pid},"ts":{at},"args":{{{unit}:{value:.15g}}}}}'


# --- Perfetto's own format: nanosecond slices on a tree of tracks, arrows and counters --------------
#
# The tree is cluster › node › rank › stream, thread or counter. Names are interned; packets are written
# rank by rank, so that memory is bounded by the largest rank. Opens at ui.perfetto.dev.


# Numbers of Perfetto's protocol, as in its trace_packet.proto, track_event.proto and track_descriptor.proto.
_SEQUENCE = 1
"""The id of the one writer whose packets these are; any number above 0."""
_BEGIN, _END, _COUNTER = 1, 2, 4
_CLEARED, _NEEDED = 1, 2
_EXPLICIT = 3
"""How a track orders its children: by `sibling_order_rank`, not by name."""
_BYTES = 3
"""The unit of a counter: UNIT_SIZE_BYTES of counter_descriptor.proto."""


def _number(field: int, value: int) -> bytes:
    """A field with a number; written even if it is zero, because readers tell that from absence."""
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def _message(field: int, *parts: bytes) -> bytes:
    """A field with bytes: a message that consists of these fields."""
    return field_bytes(field, b"".join(parts))


def _text(field: int, value: str) -> bytes:
    """A field with text; invalid Unicode is replaced."""
    return _message(field, value.encode("utf-8", "replace"))


class _Names:
    """Interned names: each is written once, before its first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._fresh: list[tuple[int, str]] = []

    def numbers(self, texts: list[str]) -> I32:
        """A number above 0 for each text."""
        out = np.empty(len(texts), np.int32)
        for i, name in enumerate(texts):
            if name not in self._numbers:
                self._numbers[name] = len(self._numbers) + 1
                self._fresh.append((self._numbers[name], name))
            out[i] = self._numbers[name]
        return out

    def packet(self) -> bytes:
        """A packet with the names not written yet; empty if there are none."""
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
    """Numbers tracks, and writes packets in the order that readers need."""

    def __init__(self, stream: BinaryIO, run: Run, options: TimelineOptions) -> None:
        self.stream, self.run, self.options = stream, run, options
        self.names = _Names()
        self.uuid = 0
        self.nodes: dict[int, int] = {}

    def write(self) -> Exported:
        """Writes the whole run; returns how many slices, arrows and folded ranks there are."""
        self.stream.write(_packet(_number(13, _CLEARED)))
        root = self._describe(0, self.run.card.name or "run", 0)
        counts = Exported(0, 0, 0)
        for line in rank_timelines(self.run, self.options):
            rank = line.view.rank
            parent = self._describe(self._node(root, rank), line.label, rank)
            counts.nodes += self._slices(line, parent)
            counts.edges += int(line.flows.stops.sum())
            counts.folded += line.ranks - 1
            for i, counter in enumerate(line.counters):
                self._counter(counter, parent, i)
        return counts

    def _describe(self, parent: int, name: str, order: int, *more: bytes) -> int:
        self.uuid += 1
        self.stream.write(_track(self.uuid, parent, name, order, *more))
        return self.uuid

    def _node(self, root: int, rank: int) -> int:
        """The track of the machine that a rank is in; the root where the size of machines is not known."""
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

    def _counter(self, counter: CounterSeries, parent: int, order: int) -> None:
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


def _flow_columns(
    flows: RankArrows, rows: I64, order: Borders, count: int
) -> tuple[I64, I64, I64, I64]:
    """For each begin, offsets and ids of the arrows that leave there, and of those that stop there."""
    place = np.full(count, -1, np.int64)
    begins = np.flatnonzero(order.begins)
    place[rows[begins]] = begins
    at = place[flows.row]
    out: list[I64] = []
    for selected in (~flows.stops, flows.stops):
        out += _grouped(at, flows.id, selected & (at >= 0), len(rows))
    return out[0], out[1], out[2], out[3]


def _grouped(at: I64, ids: I64, selected: Mask, count: int) -> Iterator[I64]:
    at, ids = at[selected], ids[selected]
    order = np.argsort(at, kind="stable")
    yield np.concatenate([[0], np.cumsum(np.bincount(at, minlength=count))]).astype(np.int64)
    yield ids[order]


def timeline_format(
    path: str | os.PathLike[str], *, perfetto: bool = False, chrome: bool = False
) -> Literal["perfetto", "chrome"] | None:
    """The format of a timeline: the requested one, else by the path's suffix; None for other files."""
    if perfetto and chrome:
        raise ConfigError("choose one of --perfetto and --chrome")
    suffix = PurePath(os.fspath(path).removesuffix(".gz")).suffix
    if perfetto or (not chrome and suffix == ".pftrace"):
        return "perfetto"
    return "chrome" if chrome or suffix == ".json" else None


def write_timeline(
    run: Run,
    path: str | os.PathLike[str],
    options: TimelineOptions | None = None,
    *,
    chrome: bool = False,
) -> Exported:
    """Writes the run in Perfetto's own format, or as Chrome JSON; `.gz` compresses."""
    write = write_chrome if chrome else write_perfetto
    return write(run, path, options)
