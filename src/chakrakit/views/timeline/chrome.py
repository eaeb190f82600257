"""Chrome's JSON trace format: what chrome://tracing, Perfetto and Kineto's tools read.

Times are microseconds with three decimals, so that nanoseconds stay exact; every track is serial or
properly nested, as complete (X) events on one track must be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.codecs import Exported
from chakrakit.trace.files import open_output
from chakrakit.trace.sets import Run
from chakrakit.views.timeline.timeline import RankTimeline, TimelineOptions, rank_timelines

_BATCH = 50_000


def write_chrome(
    run: Run, path: str | os.PathLike[str], options: TimelineOptions | None = None
) -> Exported:
    """Writes the run; `.gz` compresses. Counts slices as nodes and arrows as edges."""
    found = Exported(0, 0, 0)
    with open_output(path, binary_only=False) as stream:
        stream.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        stream.write(_event(ph="M", name="trace_name", pid=0, args={"name": run.card.name}))
        for line in rank_timelines(run, options or TimelineOptions()):
            _head(stream, line)
            for lines in _slices(line), _flows(line), _counters(line):
                _write(stream, lines)
            found.nodes += len(line.tracks.row)
            found.edges += int(line.flows.stops.sum())
            found.folded += line.ranks - 1
        stream.write(b"\n]}\n")
    return found


def _event(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _head(stream: BinaryIO, line: RankTimeline) -> None:
    rank = line.view.rank
    stream.write(b",\n" + _event(ph="M", name="process_name", pid=rank, args={"name": line.label}))
    stream.write(
        b",\n" + _event(ph="M", name="process_sort_index", pid=rank, args={"sort_index": rank})
    )
    for i, track in enumerate(line.tracks.tracks):
        title = track.lane if not track.number else f"{track.lane} ({track.number + 1})"
        for what, args in (
            ("thread_name", {"name": title}),
            ("thread_sort_index", {"sort_index": i}),
        ):
            stream.write(b",\n" + _event(ph="M", name=what, pid=rank, tid=i, args=args))


def _write(stream: BinaryIO, lines: Iterator[str]) -> None:
    """In batches: one write per line would cost more than the line."""
    batch: list[str] = []
    for text in lines:
        batch.append(text)
        if len(batch) == _BATCH:
            stream.write((",\n" + ",\n".join(batch)).encode())
            batch = []
    if batch:
        stream.write((",\n" + ",\n".join(batch)).encode())


def _micros(nanos: I64) -> list[str]:
    """Exact: no float in between."""
    whole, rest = np.divmod(nanos, 1000)
    return [f"{a}.{b:03d}" for a, b in zip(whole.tolist(), rest.tolist(), strict=True)]


def _slices(line: RankTimeline) -> Iterator[str]:
    tracks, view = line.tracks, line.view
    codes, texts = view.names
    names = [json.dumps(t) for t in texts]
    kinds = ('"compute"', '"communication"', '"copy"', '"host"', '"other"')
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
    shown = track_of[flows.row] >= 0
    row = flows.row[shown]
    phase = np.where(flows.begins, 0, np.where(flows.stops, 2, 1))[shown]
    columns = (
        flows.id[shown].tolist(),
        phase.tolist(),
        track_of[row].tolist(),
        _micros(view.start[row]),
    )
    phases = ('"s"', '"t"', '"f","bp":"e"')
    for number, which, tid, at in zip(*columns, strict=True):
        yield (
            f'{{"ph":{phases[which]},"id":{number},"name":"dependency","cat":"flow",'
            f'"pid":{view.rank},"tid":{tid},"ts":{at}}}'
        )


def _counters(line: RankTimeline) -> Iterator[str]:
    for counter in line.counters:
        name, pid = json.dumps(counter.name), line.view.rank
        unit = json.dumps(counter.unit or "value")
        for at, value in zip(_micros(counter.time_ns), counter.value.tolist(), strict=True):
            yield f'{{"ph":"C","name":{name},"pid":{pid},"ts":{at},"args":{{{unit}:{value:.15g}}}}}'
