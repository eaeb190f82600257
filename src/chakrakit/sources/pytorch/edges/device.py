"""What ran on the device: who launched it, what it had to wait for, and who waited for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges.candidates import Candidates
from chakrakit.sources.pytorch.match import Timeline
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.trace.model import EdgeForm, EdgeKind

_QUEUED_NS = 5_000
"""A launch this long before the stream is free has surely reached the device in time."""
_DEFAULT_LATENCY_NS = 6_000
_DEFAULT_GAP_NS = 1_000


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
    found = _same_number(line, kineto.correlation, line.is_host, rows)
    operators = line.is_host & (line.kind == Kind.OPERATOR)
    named = _same_number(line, kineto.external, operators, rows)
    return np.where(found >= 0, found, named)


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
