"""Where each rank's time goes: computing, communicating, copying, and idle by cause; sums to its span."""

from __future__ import annotations

import msgspec
import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.communication import AllCalls, Matched
from chakrakit.insight.rank import (
    Cause,
    Causes,
    RankView,
    RowKind,
    Table,
    causes_of,
    ms,
    percent,
    rank_views,
)
from chakrakit.results import Result
from chakrakit.trace.model import EdgeKind, NodeType
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import Intervals

_HOST = (EdgeKind.LAUNCH, EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD, EdgeKind.SYNC)
IDLE_CAUSES = ("host", "dependency", "peer", "bubble", "data", "ended", "cut", "unknown")
STORE_CAUSES = {RowKind.LOAD: "loading", RowKind.SAVE: "saving"}
"""Why a rank is idle while a store works for it, by the kind of what it waits for."""
PARTS = (
    "compute",
    "exposed communication",
    "late ranks",
    "bubble",
    "host",
    "data",
    "saving",
    "exposed copy",
    "other idle",
)
"""What the time of a rank is made of, as every table and chart names it: six kinds of waiting among them."""


class Breakdown(Result, msgspec.Struct):
    """One rank over the run's span, in ns.

    compute_ns + exposed_comm_ns + exposed_copy_ns + idle_ns = the span. Exposed communication is what
    no computation covers, exposed copying what neither covers. Of the exposed communication,
    `exposed_wait_ns` is waiting for peers that are late to a collective or to receive, `bubble_ns`
    waiting for a message to be sent, the rest moves data. Of the exposed copying, `data_ns` reads from the
    memory of another rank. `idle` splits idle_ns by what the next work waited for: the host, the program's
    data loader, reads from a store (`loading`) and writes to one (`saving`, also after the last work), a
    dependency, a peer, a message (bubble); `ended` is after the rank's last work, `cut` what a recording
    holds before the first and after the last work of its device, which is not known to be idle.
    """

    compute_ns: int
    comm_ns: int
    exposed_comm_ns: int
    copy_ns: int
    exposed_copy_ns: int
    idle_ns: int
    overlap_ns: int
    exposed_wait_ns: int
    bubble_ns: int
    busy_ns: int
    idle: dict[str, int]
    data_ns: int = 0

    @property
    def at_work_ns(self) -> int:
        """How long it computed, moved data or copied: waiting inside a collective is no work."""
        return self.busy_ns - self.exposed_wait_ns - self.bubble_ns

    def parts(self) -> dict[str, int]:
        """The span by PARTS, waiting for the same thing counted together whether it is idle or exposed."""
        idle = self.idle
        return dict(
            zip(
                PARTS,
                (
                    self.compute_ns,
                    self.exposed_comm_ns - self.exposed_wait_ns - self.bubble_ns,
                    self.exposed_wait_ns + idle.get("peer", 0),
                    self.bubble_ns + idle.get("bubble", 0),
                    idle.get("host", 0),
                    self.data_ns + idle.get("data", 0) + idle.get("loading", 0),
                    idle.get("saving", 0),
                    self.exposed_copy_ns - self.data_ns,
                    sum(idle.get(cause, 0) for cause in ("dependency", "ended", "cut", "unknown")),
                ),
                strict=True,
            )
        )


class LaneTime(Result, msgspec.Struct):
    """How long a stream, an engine or a host thread worked, and idled between its first and last row."""

    lane: str
    rows: int
    busy_ns: int
    idle_ns: int
    first_ns: int
    last_ns: int


class RankTime(Result, msgspec.Struct):
    """A rank's breakdown, and its lanes."""

    rank: int
    breakdown: Breakdown
    lanes: list[LaneTime]


class TimeBreakdown(Result, msgspec.Struct):
    """The breakdowns of all ranks over one span."""

    span_ns: int
    ranks: list[RankTime]

    def table(self) -> Table:
        """One row per rank; times in ms."""
        rows = [
            (
                r.rank,
                *map(ms, r.breakdown.parts().values()),
                ms(r.breakdown.comm_ns),
                percent(r.breakdown.at_work_ns, self.span_ns),
            )
            for r in self.ranks
        ]
        head = ("rank", *PARTS, "all communication", "busy %")
        return Table.of(f"time by rank, ms of {ms(self.span_ns):,}", head, rows)


class RankBusy(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """How long a rank worked, its idle stretches by cause, and its lanes.

    `covered` is where computation covers communication: waiting there is not exposed. `idle` counts
    from the start of the first work (`begin`) to the end of the last (`finish`); both are None if the rank
    does no work. `head` is why its first work did not start earlier. `low` and `high` are the first start
    and the last end of any row.
    """

    rank: int
    compute_ns: int
    comm_ns: int
    exposed_comm_ns: int
    copy_ns: int
    exposed_copy_ns: int
    data_ns: int
    busy_ns: int
    begin: int | None
    finish: int | None
    covered: Intervals
    idle: dict[str, int]
    head: str
    lanes: list[LaneTime]
    low: int
    high: int
    on_device: bool
    """Whether anything but communication runs on a device."""
    loading_ns: int
    """How long the program waited for its data loader before its first work."""
    stores: tuple[dict[str, int], dict[str, int]]
    """How long the rank waited for stores before its first work and after its last, by cause."""
    cut: tuple[int, int]
    """How long the recording of a device's rank goes on before and after the device's work; 0 for others."""


def busy_of(view: RankView, causes: Causes) -> RankBusy:
    """How long one rank worked, and why it was idle."""
    compute, comm, copy = (view.busy(k) for k in (RowKind.COMPUTE, RowKind.COMM, RowKind.COPY))
    reads = _reads(view)
    busy = compute | comm | copy
    gaps = busy.gaps(busy.low, busy.high)
    low, high = view.span
    work = np.flatnonzero(view.works_on_device)
    first = work[[int(np.argmin(view.start[work]))]] if len(work) else work
    head = IDLE_CAUSES[int(_why(view, causes, first)[0])] if len(first) else "ended"
    return RankBusy(
        rank=view.rank,
        compute_ns=compute.total,
        comm_ns=comm.total,
        exposed_comm_ns=(comm - compute).total,
        copy_ns=copy.total,
        exposed_copy_ns=((copy - compute) - comm).total,
        data_ns=((reads - compute) - comm).total,
        busy_ns=busy.total,
        begin=busy.low if len(busy) else None,
        finish=busy.high if len(busy) else None,
        covered=compute & comm,
        idle=_idle_by_cause(view, causes, gaps),
        head=head,
        lanes=_lanes(view),
        low=low,
        high=high,
        on_device=view.has_device,
        loading_ns=_loading(view).cut(low, busy.low).total if len(busy) else 0,
        stores=_store_edges(view, causes, first, busy),
        cut=_cut(view, busy) if view.measured and view.has_device else (0, 0),
    )


def _cut(view: RankView, busy: Intervals) -> tuple[int, int]:
    """How long a rank's recording goes on before the first and after the last recorded work of its device.

    Recordings begin and end in the middle of something: what a device did there was not recorded, or belongs
    to no whole step. It is not known to be idle.
    """
    low, high = view.span
    return max(busy.low - low, 0), max(high - busy.high, 0)


def _store_edges(
    view: RankView, causes: Causes, first: I64, busy: Intervals
) -> tuple[dict[str, int], dict[str, int]]:
    """How long stores worked for a rank before its first work, if that waited for one, and after its last."""
    low, high = view.span
    if not len(busy):
        return _at_stores(view, Intervals.of(np.array([low]), np.array([high]))), {}
    before = Intervals.of(np.array([low]), np.array([max(busy.low, low)]))
    after = Intervals.of(np.array([min(busy.high, high)]), np.array([high]))
    waits = bool(_waits_for_store(view, causes, first).any())
    return _at_stores(view, before) if waits else {}, _at_stores(view, after)


def _at_stores(view: RankView, within: Intervals) -> dict[str, int]:
    """How much of these stretches a store works for the rank, by cause; reads come before writes."""
    times: dict[str, int] = {}
    for kind, cause in STORE_CAUSES.items():
        rows = np.flatnonzero(view.kind == kind)
        at = within & Intervals.of(view.start[rows], view.end[rows])
        if at.total:
            times[cause] = at.total
            within = within - at
    return times


def _waits_for_store(view: RankView, causes: Causes, rows: I64) -> Mask:
    """Which of these rows could start only when their own rank's use of a store was over."""
    row = np.where(causes.start_rank[rows] < 0, causes.start_row[rows], -1)
    return np.asarray((row >= 0) & view.uses_store[np.maximum(row, 0)], np.bool_)


def _reads(view: RankView) -> Intervals:
    """When a rank read data from the memory of another."""
    rows = np.flatnonzero(view.loads_data & (view.kind == RowKind.COPY))
    return Intervals.of(view.start[rows], view.end[rows])


def _loading(view: RankView) -> Intervals:
    """When the program waited for its data loader."""
    rows = np.flatnonzero(view.loads_data & view.on_host & view.ran & ~view.uses_store)
    return Intervals.of(view.start[rows], view.end[rows])


def span_of(parts: list[RankBusy]) -> tuple[int, int]:
    """The first start and the last end over all ranks; (0, 0) if nothing ran."""
    timed = [p for p in parts if p.high >= p.low]
    return min((p.low for p in timed), default=0), max((p.high for p in timed), default=0)


_DONE = (EdgeKind.STREAM, EdgeKind.INFERRED, Cause.LANE)
"""What held work back and was over when the device became idle."""
_KERNEL_GAP_NS = 20_000
"""A device is longer idle between two kernels of a stream than it needs to be: something else was waited for.
H200s need one to three microseconds. Assumed."""


def _idle_by_cause(view: RankView, causes: Causes, gaps: Intervals) -> dict[str, int]:
    rows = np.flatnonzero(view.works_on_device)
    if not len(gaps) or not len(rows):
        return {}
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    loading = _loading(view)
    rest = gaps - loading
    place = np.searchsorted(view.start[rows], rest.end, side="left")
    follows = rows[np.minimum(place, len(rows) - 1)]
    why = _why(view, causes, follows)
    if view.measured:
        done = np.isin(causes.start[follows], _DONE) & (rest.end - rest.start > _KERNEL_GAP_NS)
        why[done & (why == IDLE_CAUSES.index("dependency"))] = IDLE_CAUSES.index("unknown")
    held = _waits_for_store(view, causes, follows)
    why[held] = IDLE_CAUSES.index("dependency")
    length = np.zeros(len(IDLE_CAUSES), np.int64)
    np.add.at(length, why, rest.end - rest.start)
    length[IDLE_CAUSES.index("data")] = (gaps & loading).total
    at_stores = _at_stores(view, Intervals.of(rest.start[held], rest.end[held]))
    length[IDLE_CAUSES.index("dependency")] -= sum(at_stores.values())
    idle = {name: int(length[i]) for i, name in enumerate(IDLE_CAUSES) if length[i]}
    return idle | at_stores


def _why(view: RankView, causes: Causes, rows: I64) -> I64:
    """For each row, what it waited for before it started, as an index into IDLE_CAUSES."""
    code = causes.start[rows]
    why = np.full(len(rows), IDLE_CAUSES.index("dependency"), np.int64)
    why[code == Cause.NOTHING] = IDLE_CAUSES.index("unknown")
    why[np.isin(code, _HOST) | view.on_host[rows]] = IDLE_CAUSES.index("host")
    waited = np.where(causes.start_rank[rows] < 0, causes.start_row[rows], -1)
    for_host = (waited >= 0) & (view.on_host & ~view.uses_store)[np.maximum(waited, 0)]
    why[for_host] = IDLE_CAUSES.index("host")
    why[(causes.start_rank[rows] >= 0) | (code == Cause.ARRIVAL)] = IDLE_CAUSES.index("peer")
    why[view.trace.types[rows] == NodeType.COMM_RECV_NODE] = IDLE_CAUSES.index("bubble")
    return why


def _lanes(view: RankView) -> list[LaneTime]:
    lane, names = view.lanes
    rows = np.flatnonzero(view.ran & (view.kind != RowKind.NONE))
    rows = rows[np.argsort(lane[rows], kind="stable")]
    out = []
    first = np.flatnonzero(np.r_[True, lane[rows[1:]] != lane[rows[:-1]]]) if len(rows) else rows
    for mine in np.split(rows, first[1:]):
        if not len(mine):
            continue
        begin, end = view.start[mine], view.end[mine]
        busy = Intervals.of(begin, end).total
        low, high = int(begin.min()), int(end.max())
        name = names[lane[mine[0]]]
        out.append(LaneTime(name, len(mine), busy, high - low - busy, low, high))
    return out


def join_breakdown(parts: list[RankBusy], matched: Matched, span: tuple[int, int]) -> TimeBreakdown:
    """The breakdown of all ranks, with waiting for peers told apart from moving data."""
    waits = _Waits(matched)
    ranks = [RankTime(p.rank, _breakdown(p, waits, span), p.lanes) for p in parts]
    return TimeBreakdown(span[1] - span[0], ranks)


def _breakdown(part: RankBusy, waits: _Waits, span: tuple[int, int]) -> Breakdown:
    wait, bubble = waits.of(part)
    return Breakdown(
        compute_ns=part.compute_ns,
        comm_ns=part.comm_ns,
        exposed_comm_ns=part.exposed_comm_ns,
        copy_ns=part.copy_ns,
        exposed_copy_ns=part.exposed_copy_ns,
        idle_ns=span[1] - span[0] - part.busy_ns,
        overlap_ns=part.comm_ns - part.exposed_comm_ns,
        exposed_wait_ns=wait,
        bubble_ns=bubble,
        busy_ns=part.busy_ns,
        idle=_whole_idle(part, span),
        data_ns=part.data_ns,
    )


def _whole_idle(part: RankBusy, span: tuple[int, int]) -> dict[str, int]:
    """Idle time by cause over the whole span, including before the rank's first work and after its last."""
    if part.begin is None or part.finish is None:
        at_stores = part.stores[0]
        rest = span[1] - span[0] - sum(at_stores.values())
        return at_stores | ({part.head: rest} if rest or not at_stores else {})
    idle = dict(part.idle)
    before, after = part.cut
    loading = 0 if part.on_device and before else part.loading_ns
    at_first, at_last = part.stores if not any(part.cut) else ({}, {})
    edges = (
        ("cut", before + after),
        ("data", loading),
        (part.head, part.begin - span[0] - before - loading - sum(at_first.values())),
        *at_first.items(),
        ("ended", span[1] - part.finish - after - sum(at_last.values())),
        *at_last.items(),
    )
    for cause, length in edges:
        if length:
            idle[cause] = idle.get(cause, 0) + length
    return idle


class _Waits:
    """Computes the exposed time in which a rank only waits for peers or messages.

    Calls are grouped by rank once; ranks that are alike share one computation.
    """

    def __init__(self, matched: Matched) -> None:
        self._matched = matched
        self._order = np.argsort(matched.rank, kind="stable")
        self._ranks = matched.rank[self._order]
        self._waits_of: dict[tuple[int, int], tuple[int, int]] = {}

    def of(self, part: RankBusy) -> tuple[int, int]:
        """How long a rank waits for peers and for messages, in ns."""
        rank = self._matched.looked_at(part.rank)
        key = (rank, id(part.covered))
        if key not in self._waits_of:
            low, high = np.searchsorted(self._ranks, [rank, rank + 1])
            mine = self._order[low:high]
            self._waits_of[key] = _exposed_waits(part, self._matched, mine) if len(mine) else (0, 0)
        return self._waits_of[key]


def _exposed_waits(part: RankBusy, matched: Matched, mine: I64) -> tuple[int, int]:
    """How long a rank waits for peers and for messages, of what no computation covers.

    A collective that holds the rank up waits for whoever is late, also while other data moves behind it, such
    as gradients. One that ends while the rank computes held nothing up: then what moves comes first.
    """
    start, end = matched.start[mine], matched.end[mine]
    upto = start + matched.wait[mine]
    receives = matched.type[mine] == NodeType.COMM_RECV_NODE
    holds = ~receives & matched.collective[mine] & ~_ends_inside(end, part.covered)
    held = Intervals.of(start[holds], upto[holds]) - part.covered
    moving = Intervals.of(upto, end) | part.covered
    bubble = Intervals.of(start[receives], upto[receives]) - moving - held
    others = Intervals.of(start[~receives], upto[~receives]) - moving - bubble
    return (others | held).total, bubble.total


def _ends_inside(end: I64, intervals: Intervals) -> Mask:
    """Which moments an interval leads up to, or goes on behind."""
    if not len(intervals):
        return np.zeros(len(end), np.bool_)
    at = np.searchsorted(intervals.start, end, side="left") - 1
    return np.asarray((at >= 0) & (intervals.end[np.maximum(at, 0)] >= end), np.bool_)


def breakdown(run: Run) -> TimeBreakdown:
    """The time breakdown of a run by rank and lane."""
    parts: list[RankBusy] = []
    calls = AllCalls(run)
    for view in rank_views(run):
        parts.append(busy_of(view, causes_of(view, run.times_of(view.rank))))
        calls.add_view(view)
    return join_breakdown(parts, calls.matched(), span_of(parts))
