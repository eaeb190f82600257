"""Where the host waits for the device: synchronizations, blocking copies, a full launch queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges.candidates import TOLERANCE_NS
from chakrakit.sources.pytorch.edges.device import DeviceModel
from chakrakit.sources.pytorch.edges.host import HostModel
from chakrakit.sources.pytorch.read import Kind, Kineto, whole
from chakrakit.sources.pytorch.timeline import Timeline
from chakrakit.trace.model import EdgeForm, EdgeKind

QUEUE_DEPTH = 1024
"""Launches the driver takes before it blocks the host; measured on an H200 as 1,019 to 1,024."""

_DEVICE_WIDE = r"^(cuda|hip)DeviceSynchronize$|^cuCtxSynchronize$|^(cuda|hip)Free$"
_ONE_STREAM = r"^(cuda|cu|hip)StreamSynchronize$"
_ONE_EVENT = r"^(cuda|cu|hip)EventSynchronize$"
_COPY = r"[mM]emcpy"
_BLOCKED_FACTOR = 10
"""A launch this many times longer than the median may have been blocked by a full queue."""
_BLOCKED_NS = 100_000
"""And at least this long in ns, so that a short launch which is merely slow does not count."""


@dataclass
class Waits:
    """How many calls waited for the device, by what they are."""

    synchronizations: int = 0
    blocking_copies: int = 0
    blocked_launches: int = 0
    queue_depth: int = QUEUE_DEPTH


def add_waits(line: Timeline, kineto: Kineto, device: DeviceModel, host: HostModel) -> Waits:
    """Turn every wait for the device from the host's own time into an edge."""
    waits = Waits()
    if not len(device.rows):
        return waits
    lanes = _Lanes(line, device)
    waits.synchronizations = _synchronizations(line, kineto, host, lanes)
    waits.blocking_copies = _blocking_copies(line, kineto, device, host)
    _full_queue(line, device, host, waits)
    return waits


class _Lanes:
    """Each lane's rows with the starts of their launches, to find what was in flight at a time."""

    def __init__(self, line: Timeline, device: DeviceModel) -> None:
        self.line = line
        begin = np.where(device.call >= 0, line.start[device.call], np.iinfo(np.int64).min)
        number = line.lane[device.rows]
        edge = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
        self.spans = list(zip(edge, np.r_[edge[1:], len(number)], strict=True))
        self.rows = device.rows
        self.names = [line.lane_names[number[a]] for a, _ in self.spans]
        self.begin = [np.maximum.accumulate(begin[a:b]) for a, b in self.spans]

    def last_launched(self, lane: int, when: I64) -> I64:
        """The last row of a lane launched before each time, or -1."""
        first, _ = self.spans[lane]
        place = np.searchsorted(self.begin[lane], when, side="left") - 1
        return np.where(place >= 0, self.rows[np.maximum(first + place, 0)], -1)


def _synchronizations(line: Timeline, kineto: Kineto, host: HostModel, lanes: _Lanes) -> int:
    texts = kineto.texts
    is_call = (line.kind == Kind.CALL) & (line.event >= 0)
    name = np.where(is_call, kineto.name[line.event], 0)
    scope = _scopes(line, kineto)
    total = 0
    for pattern, everywhere in ((_DEVICE_WIDE, True), (_ONE_STREAM, False), (_ONE_EVENT, False)):
        calls = np.flatnonzero(is_call & texts.matching(pattern)[name])
        if len(calls):
            total += _wait_on_lanes(line, host, lanes, calls, None if everywhere else scope[calls])
    return total


def _scopes(line: Timeline, kineto: Kineto) -> I64:
    """The stream each call waits on, where the device's tracer says so; -1 otherwise."""
    syncs = np.flatnonzero(kineto.kind == Kind.SYNC)
    streams = kineto.extras.column("wait_on_stream") if len(syncs) else {}
    recorded_on = {s: n for s, text in streams.items() if (n := whole(text)) is not None}
    stream_of = {
        int(kineto.correlation[s]): max(int(kineto.stream[s]), recorded_on.get(int(s), -1))
        for s in syncs
    }
    number = np.where(line.event >= 0, kineto.correlation[line.event], -1)
    scope = np.full(len(line), -1, np.int64)
    for row in np.flatnonzero(np.isin(number, list(stream_of)) & line.is_host):
        scope[row] = stream_of[int(number[row])]
    return scope


def _wait_on_lanes(
    line: Timeline, host: HostModel, lanes: _Lanes, calls: I64, scope: I64 | None
) -> int:
    waited = np.zeros(len(calls), np.bool_)
    per_lane = [lanes.last_launched(lane, line.start[calls]) for lane in range(len(lanes.spans))]
    latest = _latest_ended(line, calls, per_lane, scope, lanes)
    for lane, (_, stream) in enumerate(lanes.names):
        rows = per_lane[lane]
        use = (rows >= 0) & (line.end[rows] <= line.end[calls] + TOLERANCE_NS)
        if scope is not None:
            on_stream = scope == stream
            use &= on_stream | ((scope < 0) & (rows == latest))
        waited |= use
        _wait_on_rows(line, host, rows[use], calls[use], latest[use])
    return int(waited.sum())


def _latest_ended(
    line: Timeline, calls: I64, per_lane: list[I64], scope: I64 | None, lanes: _Lanes
) -> I64:
    """Of all lanes, the row that ended last before the call did: what it really waited for."""
    best = np.full(len(calls), -1, np.int64)
    best_end = np.full(len(calls), np.iinfo(np.int64).min)
    for lane, rows in enumerate(per_lane):
        ended = np.where(rows >= 0, line.end[rows], np.iinfo(np.int64).min)
        fits = (rows >= 0) & (ended <= line.end[calls] + TOLERANCE_NS) & (ended > best_end)
        if scope is not None:
            fits &= (scope < 0) | (scope == lanes.names[lane][1])
        best[fits], best_end[fits] = rows[fits], ended[fits]
    return best


def _wait_on_rows(line: Timeline, host: HostModel, rows: I64, calls: I64, latest: I64) -> None:
    """Finish→finish from rows to calls; only what ended inside the call made it wait."""
    inside = line.end[rows] > line.start[calls]
    binding = inside & (rows == latest)
    host.wait_inside(rows[binding], calls[binding])
    rest = ~binding
    slack = np.maximum(line.end[calls[rest]] - line.end[rows[rest]], 0)
    lag = np.minimum(slack, host.own_ns[calls[rest]])
    host.extra.add(EdgeKind.SYNC, rows[rest], calls[rest], lag, EdgeForm.FINISH_FINISH)


def _blocking_copies(line: Timeline, kineto: Kineto, device: DeviceModel, host: HostModel) -> int:
    """Copies that had ended when their call returned: the next host row had to wait for them."""
    texts = kineto.texts
    launched = (device.call >= 0) & (line.kind[device.rows] == Kind.MEMCPY)
    rows, calls = device.rows[launched], device.call[launched]
    called = kineto.name[line.event[calls]]
    ended = line.end[rows] <= line.end[calls] + TOLERANCE_NS
    copies = texts.matching(_COPY)[called]
    sure = copies & ~texts.where(lambda s: "Async" in s)[called]
    pageable = texts.where(lambda s: "Pageable" in s)[kineto.name[line.event[rows]]]
    blocking = ended & (sure | (copies & pageable)) & (host.after[calls] >= 0)
    rows, calls, before = rows[blocking], calls[blocking], device.before[launched][blocking]
    # A copy that was called before the stream had come to it also waited for what lay before it there.
    queued = (before >= 0) & (line.end[before] > line.start[calls] + device.latency)
    begin = np.where(queued, line.start[calls] + device.latency, line.start[rows])
    waited = np.maximum(line.end[rows] - begin, 0)
    host.own_ns[calls] = np.maximum(host.own_ns[calls] - waited, 0)
    host.wait_after(rows, host.after[calls])
    return len(rows)


def _full_queue(line: Timeline, device: DeviceModel, host: HostModel, waits: Waits) -> None:
    """Add waits for a full queue: a launch returns only once the device has begun the one 1,024 earlier."""
    order = np.argsort(_queue_times(line, device), kind="stable")
    order = order[_first_of_launch(device.call[order])]
    rows, calls = device.rows[order], device.call[order]
    waits.queue_depth = depth = _queue_depth(line, rows, calls)
    late = np.arange(depth + 1, len(rows))
    late = late[calls[late] >= 0]
    if not len(late):
        return
    cause, call = rows[late - depth - 1], calls[late]
    slack = line.end[call] - line.end[cause]
    long = line.duration[call] > _longest_free_launch(line, calls[calls >= 0])
    blocked = long & (slack >= -TOLERANCE_NS) & (line.end[cause] > line.start[call])
    queued = late - np.searchsorted(np.sort(line.start[rows]), line.end[call])
    # Launches with many arguments take more room than others, so that fewer of them fill the queue.
    freed = _last_ended(line, rows, line.end[call])
    crowded = long & ~blocked & (queued > depth // 2) & (line.end[freed] > line.start[call])
    cause = np.where(crowded, freed, cause)
    blocked |= crowded
    host.wait_inside(cause[blocked], call[blocked])
    usual = _usual_launch(line, calls[calls >= 0])
    host.own_ns[call[blocked]] = np.minimum(usual, line.duration[call[blocked]])
    free = ~blocked
    lag = np.minimum(slack[free], 0)
    host.extra.add(EdgeKind.SYNC, cause[free], call[free], lag, EdgeForm.FINISH_FINISH)
    waits.blocked_launches = int(blocked.sum())


def _queue_times(line: Timeline, device: DeviceModel) -> I64:
    """When each row entered the queue; orphans entered before everything else, in their order."""
    first = int(line.start.min()) - 1
    ordinal = np.argsort(np.argsort(line.start[device.rows], kind="stable"))
    return np.where(device.call >= 0, line.start[device.call], first - len(ordinal) + ordinal)


def _first_of_launch(calls: I64) -> Mask:
    """Rows that take a place in the queue: of a graph's, which one call launches, only the first."""
    _, first = np.unique(calls, return_index=True)
    takes_place = calls < 0
    takes_place[first] = True
    return takes_place


def _usual_launch(line: Timeline, calls: I64) -> int:
    return int(np.median(line.duration[calls])) if len(calls) else 0


def _longest_free_launch(line: Timeline, calls: I64) -> int:
    """What a launch takes at most that does not wait for a place in the queue."""
    return max(_BLOCKED_NS, _BLOCKED_FACTOR * _usual_launch(line, calls))


def _last_ended(line: Timeline, rows: I64, when: I64) -> I64:
    """The row that ended last before each time; the first one where none had."""
    by_end = rows[np.argsort(line.end[rows], kind="stable")]
    place = np.searchsorted(line.end[by_end], when + TOLERANCE_NS, side="right") - 1
    return by_end[np.maximum(place, 0)]


def _queue_depth(line: Timeline, rows: I64, calls: I64) -> int:
    """The depth seen at blocked launches, or the usual one where none was blocked."""
    launched = np.flatnonzero(calls >= 0)
    if len(rows) <= QUEUE_DEPTH or not len(launched):
        return QUEUE_DEPTH
    length = line.duration[calls[launched]]
    long = launched[length > _longest_free_launch(line, calls[launched])]
    begun = np.searchsorted(np.sort(line.start[rows]), line.end[calls[long]])
    depths = (long - begun)[(long - begun > QUEUE_DEPTH // 2) & (long - begun < 2 * QUEUE_DEPTH)]
    return int(np.median(depths)) if len(depths) else QUEUE_DEPTH
