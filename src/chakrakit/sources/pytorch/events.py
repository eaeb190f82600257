"""Device events: what one stream recorded and another waited for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrakit.sources.pytorch.candidates import Candidates
from chakrakit.sources.pytorch.device import DeviceModel
from chakrakit.sources.pytorch.kineto import Kind, Kineto
from chakrakit.sources.pytorch.rows import RowNames
from chakrakit.sources.pytorch.timeline import Timeline
from chakrakit.trace.edges import EdgeForm, EdgeKind

I64 = NDArray[np.int64]

_RECORD = r"^(cuda|cu|hip)EventRecord"
_WAIT = r"^(cuda|cu|hip)StreamWaitEvent"
_RECORD_NUMBER = "wait_on_cuda_event_record_corr_id"
_RECORD_STREAM = "wait_on_stream"


def add_event_causes(
    line: Timeline, names: RowNames, kineto: Kineto, device: DeviceModel, causes: Candidates
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


class _Finder:
    """Looks up, for one wait after the other, what was recorded and who had to wait."""

    def __init__(
        self, line: Timeline, names: RowNames, kineto: Kineto, device: DeviceModel
    ) -> None:
        self.line = line
        launched = device.call >= 0
        order = np.argsort(line.start[device.call[launched]], kind="stable")
        self.rows = device.rows[launched][order]
        self.calls = device.call[launched][order]
        self.when = line.start[self.calls]
        self.stream = kineto.stream[line.event[self.rows]]
        self.records = np.flatnonzero((line.kind == Kind.CALL) & names.matching(_RECORD))
        self.number = np.where(line.event >= 0, kineto.correlation[line.event], -1)
        self.said = _said(kineto)
        self.waited: set[int] = set()

    def resolve(self, wait: int) -> tuple[int, int] | None:
        """(row recorded, row that waited) of a wait call, if both can be told."""
        said = self.said.get(int(self.number[wait]), {})
        stream = said.get("stream", -1)
        if stream < 0:
            return None
        record = self._record(wait, said, stream)
        if record is None:
            return None
        self.waited.add(record)
        source = self._last_before(record, said.get(_RECORD_STREAM, -1), stream)
        later = np.flatnonzero((self.when > self.line.start[wait]) & (self.stream == stream))
        return None if source is None or not len(later) else (source, int(self.rows[later[0]]))

    def _record(self, wait: int, said: dict[str, int], stream: int) -> int | None:
        number = said.get(_RECORD_NUMBER, -1)
        if number >= 0:
            hit = self.records[self.number[self.records] == number]
            return int(hit[0]) if len(hit) else None
        thread, when = self.line.thread[wait], self.line.start[wait]
        before = self.records[(self.line.start[self.records] < when)]
        mine = before[self.line.thread[before] == thread]
        if len(mine) and self._last_before(int(mine[-1]), -1, stream) is not None:
            return int(mine[-1])
        fresh = [int(r) for r in before if int(r) not in self.waited]
        fresh = [r for r in fresh if self._last_before(r, -1, stream) is not None]
        return fresh[0] if fresh else None

    def _last_before(self, record: int, stream: int, waiting: int) -> int | None:
        """The row launched last before the record on its stream; None if that is the waiting one."""
        earlier = self.when < self.line.start[record]
        if stream >= 0:
            earlier &= self.stream == stream
        else:
            earlier &= self.line.thread[self.calls] == self.line.thread[record]
        found = np.flatnonzero(earlier)
        if not len(found) or self.stream[found[-1]] == waiting:
            return None
        return int(self.rows[found[-1]])


def _said(kineto: Kineto) -> dict[int, dict[str, int]]:
    """Correlation number of a wait → what the device's tracer says about it."""
    rows = np.flatnonzero(kineto.kind == Kind.SYNC)
    out = {
        int(kineto.correlation[r]): {"stream": int(kineto.stream[r]), "row": int(r)} for r in rows
    }
    by_row = {facts["row"]: facts for facts in out.values()}
    for key in (_RECORD_NUMBER, _RECORD_STREAM):
        for row, value in kineto.extras.column(key).items():
            if row in by_row:
                by_row[row][key] = int(value)
    return out
