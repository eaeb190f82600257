"""Device rows: the calls that launched them, and the streams and events they waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges.candidates import Candidates
from chakrakit.sources.pytorch.read import Kind, Kineto, whole
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames
from chakrakit.trace.model import EdgeForm, EdgeKind

_QUEUED_NS = 5_000
"""A launch this long before the stream is free has surely reached the device in time."""
_DEFAULT_LATENCY_NS = 6_000
"""From a launch's start to the kernel's on an idle stream; used only if a recording shows no such launch."""
_DEFAULT_GAP_NS = 1_000
"""Between two kernels queued on one stream; used only if a recording shows no such pair."""


@dataclass(frozen=True)
class DeviceModel:
    """Device rows in lane order with their launch calls.

    `rows[i]` ran on a lane after `before[i]` (-1 for the first) and was launched by `call[i]` (-1 for
    an orphan: launched before the recording began). `latency` and `gap` are what a launch and a
    change of kernels typically cost here.
    """

    rows: I64
    before: I64
    call: I64
    latency: int
    gap: int

    @property
    def orphans(self) -> I64:
        """Rows launched before the recording began; none where no launch was recorded at all."""
        if not (self.call >= 0).any():
            return self.rows[:0]
        return self.rows[self.call < 0]


def device_model(line: Timeline, kineto: Kineto) -> DeviceModel:
    """Match device rows to their launch calls by correlation."""
    rows, before = line.lane_order()
    call = _launch_calls(line, kineto, rows)
    line.parent[rows] = call
    return DeviceModel(rows, before, call, *_typical(line, rows, before, call))


def _launch_calls(line: Timeline, kineto: Kineto, rows: I64) -> I64:
    """By correlation; where a tracer gives none, the operator with the same External id."""
    by_correlation = _same_number(line, kineto.correlation, line.is_host, rows)
    operators = line.is_host & (line.kind == Kind.OPERATOR)
    by_external_id = _same_number(line, kineto.external, operators, rows)
    return np.where(by_correlation >= 0, by_correlation, by_external_id)


def _same_number(line: Timeline, column: I64, candidates: Mask, rows: I64) -> I64:
    """For each row, the last candidate with its number in a Kineto column; -1 for none."""
    if not len(column):
        return np.full(len(rows), -1, np.int64)
    number = np.where(line.event >= 0, column[line.event], -1)
    # A driver call may sit inside the runtime call of the same number: the inner one is last here.
    calls = np.flatnonzero(candidates & (number > 0))[::-1]
    ids, first = np.unique(number[calls], return_index=True)
    if not len(ids):
        return np.full(len(rows), -1, np.int64)
    place = np.minimum(np.searchsorted(ids, number[rows]), len(ids) - 1)
    return np.where(ids[place] == number[rows], calls[first[place]], -1)


def _typical(line: Timeline, rows: I64, before: I64, call: I64) -> tuple[int, int]:
    launched = call >= 0
    follows = launched & (before >= 0)
    row, prior, by = rows[follows], before[follows], call[follows]
    idle = line.end[prior] < line.start[by]
    queued = line.end[by] < line.end[prior] - _QUEUED_NS
    latency = line.start[row[idle]] - line.start[by[idle]]
    gap = line.start[row[queued]] - line.end[prior[queued]]
    return _median(latency, _DEFAULT_LATENCY_NS), _median(gap, _DEFAULT_GAP_NS)


def _median(values: I64, default: int) -> int:
    usable = values[values >= 0]
    return int(np.median(usable)) if len(usable) else default


def start_causes(line: Timeline, device: DeviceModel) -> Candidates:
    """Launch and stream order of every device row."""
    causes = Candidates(line.start, line.end)
    launched = device.call >= 0
    causes.add(
        EdgeKind.LAUNCH,
        EdgeForm.START_START,
        device.call[launched],
        device.rows[launched],
        device.latency,
    )
    follows = device.before >= 0
    causes.add(
        EdgeKind.STREAM,
        EdgeForm.FINISH_START,
        device.before[follows],
        device.rows[follows],
        device.gap,
    )
    return causes


def overlaps(line: Timeline, device: DeviceModel) -> int:
    """Rows that began before their predecessor on the stream had ended (programmatic launch)."""
    follows = device.before >= 0
    return int((line.start[device.rows[follows]] < line.end[device.before[follows]]).sum())


# Device events, which one stream records and another waits for.
_RECORD = r"^(cuda|cu|hip)EventRecord"
_WAIT = r"^(cuda|cu|hip)StreamWaitEvent"
_RECORD_NUMBER = "wait_on_cuda_event_record_corr_id"
_RECORD_STREAM = "wait_on_stream"


def add_event_causes(
    line: Timeline, names: TimelineNames, kineto: Kineto, device: DeviceModel, causes: Candidates
) -> int:
    """Make the first row of a stream after a wait depend on the last one before the record.

    Newer tracers name the record and its stream. Where they do not, a wait belongs to the record
    just before it on its thread, and that record to the stream the thread launched on last; a wait
    on that very stream belongs to the oldest record not yet waited for instead. Returns how many
    waits could be resolved to two rows.
    """
    waits = np.flatnonzero((line.kind == Kind.CALL) & names.matching(_WAIT))
    if not len(waits):
        return 0
    finder = _Finder(line, names, kineto, device)
    pairs = [pair for wait in waits if (pair := finder.resolve(int(wait))) is not None]
    if pairs:
        source, target = np.array(pairs, np.int64).T
        causes.add(EdgeKind.EVENT, EdgeForm.FINISH_START, source, target, device.gap)
    return len(pairs)


class _Launches:
    """Launches in the order they were made, of one stream or one thread."""

    def __init__(self, when: I64, rows: I64, streams: I64) -> None:
        self.when, self.rows, self.streams = when, rows, streams

    def before(self, when: int) -> int:
        """Place of the last launch before a time, or -1."""
        return int(np.searchsorted(self.when, when)) - 1

    def first_after(self, when: int) -> int | None:
        """The row of the first launch after a time."""
        place = int(np.searchsorted(self.when, when, side="right"))
        return int(self.rows[place]) if place < len(self.rows) else None


class _Finder:
    """Finds for each wait, in order, the row whose end was recorded and the row that waited."""

    def __init__(
        self, line: Timeline, names: TimelineNames, kineto: Kineto, device: DeviceModel
    ) -> None:
        self.line = line
        launched = device.call >= 0
        calls = device.call[launched]
        order = np.argsort(line.start[calls], kind="stable")
        calls, rows = calls[order], device.rows[launched][order]
        stream = kineto.stream[line.event[rows]]
        when = line.start[calls]
        self.by_stream = _grouped(stream, when, rows, stream)
        self.by_thread = _grouped(line.thread[calls], when, rows, stream)
        records = np.flatnonzero((line.kind == Kind.CALL) & names.matching(_RECORD))
        self.number = np.where(line.event >= 0, kineto.correlation[line.event], -1)
        self.record_of = {int(self.number[r]): int(r) for r in records}
        threads = line.thread[records]
        self.records = {int(t): records[threads == t] for t in np.unique(threads)}
        self.open_records = records.tolist()
        self.wait_facts = _wait_facts(kineto)

    def resolve(self, wait: int) -> tuple[int, int] | None:
        """(row recorded, row that waited) of a wait call, if both can be found."""
        facts = self.wait_facts.get(int(self.number[wait]), {})
        stream = facts.get("stream", -1)
        record = self._record(wait, facts, stream)
        if record is None or stream not in self.by_stream:
            return None
        if record in self.open_records:
            self.open_records.remove(record)
        source = self._last_before(record, facts.get(_RECORD_STREAM, -1), stream)
        later = self.by_stream[stream].first_after(int(self.line.start[wait]))
        return None if source is None or later is None else (source, later)

    def _record(self, wait: int, facts: dict[str, int], stream: int) -> int | None:
        number = facts.get(_RECORD_NUMBER, -1)
        if number >= 0:
            return self.record_of.get(number)
        when = self.line.start[wait]
        mine = self.records.get(int(self.line.thread[wait]), np.empty(0, np.int64))
        place = int(np.searchsorted(self.line.start[mine], when)) - 1
        if place >= 0 and self._last_before(int(mine[place]), -1, stream) is not None:
            return int(mine[place])
        earlier = (r for r in self.open_records if self.line.start[r] < when)
        return next((r for r in earlier if self._last_before(r, -1, stream) is not None), None)

    def _last_before(self, record: int, stream: int, waiting: int) -> int | None:
        """The row launched last before the record on its stream; None if that is the waiting one."""
        if stream >= 0:
            launches = self.by_stream.get(stream)
        else:
            launches = self.by_thread.get(int(self.line.thread[record]))
        place = launches.before(int(self.line.start[record])) if launches is not None else -1
        if launches is None or place < 0 or launches.streams[place] == waiting:
            return None
        return int(launches.rows[place])


def _grouped(key: NDArray[Any], when: I64, rows: I64, streams: I64) -> dict[int, _Launches]:
    groups = {}
    for value in np.unique(key):
        mine = key == value
        groups[int(value)] = _Launches(when[mine], rows[mine], streams[mine])
    return groups


def _wait_facts(kineto: Kineto) -> dict[int, dict[str, int]]:
    """Correlation number of a wait → stream, record and recording stream as the tracer gives them."""
    rows = np.flatnonzero(kineto.kind == Kind.SYNC)
    out = {
        int(kineto.correlation[r]): {"stream": int(kineto.stream[r]), "row": int(r)} for r in rows
    }
    by_row = {facts["row"]: facts for facts in out.values()}
    for key in (_RECORD_NUMBER, _RECORD_STREAM):
        for row, value in kineto.extras.column(key).items():
            number = whole(value)
            if row in by_row and number is not None:
                by_row[row][key] = number
    return out
