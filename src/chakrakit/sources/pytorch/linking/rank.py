"""One rank linked: from its two files to rows, edges, times, and counts of what was matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.operators import KNOWN_KERNELS, VIEWS, CommunicationKernels
from chakrakit.sources.pytorch.attribution import Attribution, attribute
from chakrakit.sources.pytorch.calls import RecordedCollective, find_collectives
from chakrakit.sources.pytorch.edges import (
    Candidates,
    DeviceModel,
    HostModel,
    SoundGraph,
    Waits,
    add_asynchronous,
    add_event_causes,
    add_waits,
    autograd_edges,
    device_model,
    make_sound,
    overlaps,
    start_causes,
    tensor_edges,
)
from chakrakit.sources.pytorch.graphs import (
    Capture,
    GraphRecording,
    Graphs,
    Replay,
    add_graph_causes,
    find_captures,
    find_replays,
    has_captures,
    name_rows,
)
from chakrakit.sources.pytorch.joining import Join, join
from chakrakit.sources.pytorch.linking.overhead import Overhead, cost_seen, recorded_twice, slowed
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, build_timeline
from chakrakit.sources.pytorch.work import work_of_rows
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges
from chakrakit.trace.timing import Schedule, schedule

_ITS_OWN = frozenset(("Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource"))
"""Kineto's names for what CUPTI does on behalf of tracing (CUpti_ActivityOverheadKind).

Its other kinds are paid without tracing too: compiling, loading modules, a full queue of commands.
"""


def tracer_time(kineto: Kineto, host: HostModel) -> I64:
    """Nanoseconds by row: what the tracer did in the gap before a runtime call.

    The records name no thread. The tracer works on the thread that makes a call, just before it: the
    next call, on any thread, whose gap before it holds the whole record.
    """
    tracer_ns = np.zeros(len(host.line), np.int64)
    line, by_tracer = host.line, kineto.texts.where(_ITS_OWN.__contains__)[kineto.name]
    records = np.flatnonzero((kineto.kind == Kind.OVERHEAD) & by_tracer)
    calls = np.flatnonzero((line.kind == Kind.CALL) & (host.before >= 0) & (host.recorded_lag > 0))
    calls = calls[np.argsort(line.start[calls], kind="stable")]
    begin = line.start[calls] - host.recorded_lag[calls]
    for record in records.tolist():
        start, end = int(kineto.start[record]), int(kineto.end[record])
        later = int(np.searchsorted(line.start[calls], end))
        holds = np.flatnonzero(begin[later:] <= start)
        if len(holds):
            tracer_ns[calls[later + holds[0]]] += end - start
    return np.minimum(tracer_ns, np.maximum(host.recorded_lag, 0))


@dataclass(frozen=True)
class ProgramTimes:
    """Start, end and own time of every row, in ns on the rank's clock: recorded, or without recording's cost.

    A host row's own time holds neither what runs inside it nor any waiting, and a host row ends after
    everything that ran inside it.
    """

    start: I64
    end: I64
    own_ns: I64


def recorded_times(host: HostModel, own_ns: I64, whole: Mask) -> ProgramTimes:
    """The recorded times; rows in `whole` keep their full time whatever runs inside them."""
    line = host.line
    own = _own_times(_Callers(host), line.start, line.end, own_ns, whole)
    return ProgramTimes(line.start, line.end, own)


def corrected_times(
    host: HostModel, edges: Edges, own_ns: I64, whole: Mask, polls: Mask
) -> tuple[ProgramTimes, Edges]:
    """Every row as early as the constraints allow, once recording's cost is out of them.

    Rows with others inside have no part in the chain of their thread but for their starts. Their
    ends are put where they were between the last row inside and the next row after it. Rows of
    threads that only poll stay beside the work that they were recorded beside, which changes the
    lags of their edges.
    """
    line = host.line
    bare = own_ns.copy()
    callers = _Callers(host)
    bare[callers.rows[~whole[callers.rows]]] = 0
    timed = schedule(len(line), edges, bare)
    if polls.any():
        edges = _moved_along(host, edges, timed, polls)
        timed = schedule(len(line), edges, bare)
    epoch = int(line.start.min()) if len(line) else 0
    start, end = timed.start + epoch, timed.end + epoch
    _place_ends(callers, start, end, whole)
    return ProgramTimes(start, end, _own_times(callers, start, end, own_ns, whole)), edges


def _moved_along(host: HostModel, edges: Edges, timed: Schedule, polls: Mask) -> Edges:
    """The edges, with those to polling rows holding them where the busiest thread is by then."""
    line = host.line
    works = line.thread[host.rows[~polls[host.rows]]]
    if not len(works):
        return edges
    main = host.thread_rows(int(np.bincount(works).argmax()))
    when = np.interp(line.start, line.start[main], np.maximum.accumulate(timed.start[main]))
    late = np.maximum(
        line.start - line.start[main[-1]], 0
    )  # as long after the last row as recorded
    target = when.astype(np.int64) + late
    to_poll = polls[edges.dst] & np.isin(edges.kind, (EdgeKind.THREAD, EdgeKind.INFERRED))
    first = edges.form == EdgeForm.START_START
    base = np.where(
        polls[edges.src],
        target[edges.src] + np.where(first, 0, line.duration[edges.src]),
        np.where(first, timed.start[edges.src], timed.end[edges.src]),
    )
    lag = np.where(to_poll, np.maximum(target[edges.dst] - base, 0), edges.lag)
    return Edges(edges.src, edges.dst, edges.kind, edges.form, lag, edges.ctrl)


class _Callers:
    """Host rows with others inside, the last row inside each, and the row after that on the thread."""

    def __init__(self, host: HostModel) -> None:
        self.host, line = host, host.line
        self.inside = np.flatnonzero((line.parent >= 0) & line.is_host & ~line.astray)
        self.rows = np.unique(line.parent[self.inside])

    @cached_property
    def last(self) -> I64:
        """The last row inside each, on its thread."""
        line, rows = self.host.line, self.host.rows
        place = np.full(len(line), -1, np.int64)
        place[rows] = np.arange(len(rows))
        inner = self.inside[np.argsort(place[self.inside], kind="stable")][::-1]
        at, last = place.tolist(), list(range(len(line)))  # lists: rows are taken one by one
        for row, outer in zip(inner.tolist(), line.parent[inner].tolist(), strict=True):
            if at[last[row]] > at[last[outer]]:
                last[outer] = last[row]
        return np.array(last, np.int64)[self.rows]

    @property
    def next(self) -> I64:
        """The row after that."""
        return self.host.after[self.last]


def _place_ends(callers: _Callers, start: I64, end: I64, whole: Mask) -> None:
    """Move each caller's end with the gap it lies in: first waiting, then the host's work."""
    host, line = callers.host, callers.host.line
    rows, last, after = callers.rows, callers.last, callers.next
    follows = after >= 0
    at = np.maximum(after, 0)
    past = np.maximum(line.end[rows] - line.end[last], 0)
    gap = np.where(follows, line.start[at] - line.end[last], past)
    work = np.where(follows, np.minimum(np.maximum(host.recorded_lag[at], 0), gap), gap)
    new_gap = np.maximum(np.where(follows, start[at] - end[last], gap), 0)
    new_work = np.where(follows, np.minimum(np.maximum(host.lag[at], 0), new_gap), new_gap)
    waited = np.minimum(past, gap - work)
    moved = (
        _share(waited, gap - work) * (new_gap - new_work) + _share(past - waited, work) * new_work
    )
    placed = end[last] + moved.astype(np.int64)
    movable = ~whole[rows]
    end[rows[movable]] = np.maximum(placed, end[rows])[movable]
    # Inner rows are later in the order of starts, so that going backwards each is done before its caller.
    inner, ends = callers.inside[::-1], end.tolist()
    for row, outer in zip(inner.tolist(), line.parent[inner].tolist(), strict=True):
        ends[outer] = max(ends[outer], ends[row])
    end[:] = ends


def _share(part: I64, whole: I64) -> F64:
    return np.minimum(part / np.maximum(whole, 1), 1.0)


def _own_times(callers: _Callers, start: I64, end: I64, own_ns: I64, whole: Mask) -> I64:
    """Own times of all rows; callers' from the times, without what ran inside and without waiting."""
    host, inner = callers.host, callers.inside
    line = host.line
    outer = line.parent[inner]
    spent = np.zeros(len(line), np.int64)
    np.add.at(spent, outer, np.minimum(end[inner], end[outer]) - start[inner])
    out = own_ns.copy()
    rows = callers.rows[~whole[callers.rows]]
    out[rows] = np.minimum(end[rows] - start[rows] - spent[rows], own_ns[rows])
    _take_out_waiting(host, start, end, out, whole)
    out[rows] = np.maximum(out[rows], 0)
    return out


def _take_out_waiting(host: HostModel, start: I64, end: I64, own_ns: I64, whole: Mask) -> None:
    """Subtract gaps in which a thread only waited from the own times of the callers they lie in."""
    line = host.line
    rows = host.rows[host.before[host.rows] >= 0]
    before = host.before[rows]
    base = np.where(host.is_call[rows], start[before], end[before])
    waited = start[rows] - base - np.maximum(host.lag[rows], 0)
    for i in np.flatnonzero(waited > 0).tolist():
        row, since = int(rows[i]), int(base[i])
        until = since + int(waited[i])
        inner = -1 if host.is_call[row] else int(before[i])
        while inner >= 0 and (outer := int(line.parent[inner])) != int(line.parent[row]):
            if outer < 0:
                break
            stop = min(int(end[outer]), until)
            own_ns[outer] -= max(stop - since, 0) * (not whole[outer])
            since, inner = max(since, stop), outer
        caller = int(line.parent[row])
        if caller >= 0 and not whole[caller]:
            own_ns[caller] -= max(until - since, 0)


_DEEPEST = 64
"""Levels of nesting that are searched for rows inside communication; deeper ones count as outside."""


@dataclass(kw_only=True)
class Rank:
    """Everything known about one rank, rows in order of start.

    `line` is what was recorded; `times` are the rank's times, with what recording cost taken out
    where that was asked for. `own_ns` is the time a scheduler gives a row: for host rows without what
    runs inside them and without waiting, for device rows what was measured.
    """

    rank: int
    observer: Observer | None
    kineto: Kineto | None
    joined: Join
    line: Timeline
    names: TimelineNames
    collectives: list[RecordedCollective]
    attribution: Attribution
    device: DeviceModel
    edges: Edges
    times: ProgramTimes
    sound: SoundGraph
    waits: Waits
    counts: Counter[str] = field(default_factory=Counter)
    undilated_ms: float = 0.0
    overhead_factor: float = 1.0
    graphs: Graphs = field(default_factory=Graphs)
    kernels: CommunicationKernels = KNOWN_KERNELS
    """Which kernels count as communication."""

    @property
    def own_ns(self) -> I64:
        """What a scheduler gives each row."""
        return self.times.own_ns


@dataclass(kw_only=True)
class RankParts:
    """A rank with its files matched and its causes found, before recording's cost is taken out.

    It holds everything that does not depend on that cost, so that several amounts can be tried.
    """

    rank: int
    observer: Observer | None
    kineto: Kineto | None
    pairs: Join
    twice: bool
    """Whether times come from a second pass, in which no observer ran."""
    line: Timeline
    names: TimelineNames
    host: HostModel
    device: DeviceModel
    collectives: list[RecordedCollective]
    is_communication: Mask
    """Rows that are communication."""
    waits: Waits
    replays: list[Replay]
    started: Edges
    """Edges to the starts of rows, as recorded."""
    fixed: list[Edges]
    """Edges that no cost of recording changes."""
    counts: Counter[str]
    captures: Sequence[Capture]
    kernels: CommunicationKernels = KNOWN_KERNELS

    @property
    def observed(self) -> bool:
        """Whether the observer ran while these times were recorded, be its file there or not."""
        if self.observer is not None:
            return not self.twice
        return recorded_twice(self._launched_ns, self._viewed_ns)

    @cached_property
    def _launched_ns(self) -> I64:
        """How long the launches of single kernels took."""
        single = _launches(self.host, self.device)
        single[[r.call for r in self.replays]] = False
        return self.line.duration[single]

    @cached_property
    def _viewed_ns(self) -> I64:
        """How long the views took that call nothing."""
        views = self.names.where(_is_view)
        return self.line.duration[views & self.line.is_host & self.line.is_leaf()]

    def cost(self, card: Overhead) -> Overhead:
        """What recording cost: as its card says, or as the recording shows where that is more.

        Without launches the card alone counts, if it says anything.
        """
        operators, calls = slowed(self.host, _apart(self.line, self.is_communication))
        launches = _launches(self.host, self.device)
        values = self.observer.values if self.observed and self.observer is not None else 0
        counts = int(operators.sum()), int(launches.sum()), int((calls & ~launches).sum())
        estimate = cost_seen(self._launched_ns, counts[0], values, self._viewed_ns)
        both = [c.total_ns(*counts, self.observed) for c in (card, estimate)]
        if both[0] >= both[1] or (both[0] and not launches.any()):
            return card
        return replace(estimate, step_ns=card.step_ns, graph_node_ns=card.graph_node_ns)

    def host_ns(self, overhead: Overhead) -> float:
        """What the host takes for everything that recording slows, with this cost taken out."""
        host, apart = self.host.copy(), _apart(self.line, self.is_communication)
        _undilate(overhead, host, self.device, self.observed, self.is_communication)
        gaps = host.lag[~apart & (host.before >= 0) & (host.lag > 0)]
        own = host.own_ns[~apart & self.line.is_host & self.line.is_leaf()]
        return float(gaps.sum() + own.sum())

    @cached_property
    def attribution(self) -> Attribution:
        """The step, phase and module of each row."""
        return attribute(self.line, self.names, self.observer, self.kineto)

    def linked(self, overhead: Overhead | None) -> Rank:
        """The rank with this cost of recording taken out of its times."""
        line, host, is_communication = self.line, self.host.copy(), self.is_communication
        waited = _graph_overhead(overhead, host, self.replays, self.names)
        by_tracer = _tracer_time(overhead, host, self.kineto)
        undilated = _undilate(overhead, host, self.device, self.observed, is_communication)
        started = _earlier(self.started, waited)
        sound = make_sound(line, Edges.concat([started, host.edges().edges(), *self.fixed]))
        own_ns = np.where(line.is_host, host.own_ns, line.duration)
        # Communication takes its whole time, whatever copies its back end records inside it.
        own_ns[is_communication] = line.duration[is_communication]
        edges = sound.edges
        if overhead is None:
            times = recorded_times(host, own_ns, is_communication)
        else:
            times, edges = corrected_times(host, edges, own_ns, is_communication, _polls(line))
        return Rank(
            rank=self.rank,
            observer=self.observer,
            kineto=self.kineto,
            joined=self.pairs,
            line=line,
            names=self.names,
            collectives=self.collectives,
            attribution=self.attribution,
            device=self.device,
            edges=edges,
            times=times,
            sound=sound,
            waits=self.waits,
            counts=self.counts.copy(),
            undilated_ms=undilated + float(waited.sum() + by_tracer) / 1e6,
            kernels=self.kernels,
        )

    def with_graphs(self, linked: Rank) -> Rank:
        """The rank with the rows of replayed graphs named."""
        if self.replays:
            captures = [*self.captures, *captures_of(linked)]
            linked.graphs = name_rows(self.line, self.names, self.replays, captures)
        return linked


def link_rank(
    rank: int,
    observer: Observer | None,
    kineto: Kineto | None,
    joined: Join | None = None,
    overhead: Overhead | None = None,
) -> Rank:
    """Link one rank. Either file may be missing; `joined` overrides how they are paired."""
    parts = rank_parts(rank, observer, kineto, joined)
    return parts.with_graphs(parts.linked(overhead))


def rank_parts(
    rank: int,
    observer: Observer | None,
    kineto: Kineto | None,
    joined: Join | None = None,
    captures: Sequence[Capture] = (),
    kernels: CommunicationKernels = KNOWN_KERNELS,
) -> RankParts:
    """Match one rank's files and find its causes. `joined` overrides how the files are paired.

    `captures` name the rows of replayed graphs, beside those that were captured in the recording.
    """
    pairs = joined or _join(observer, kineto)
    line = build_timeline(observer, kineto, pairs)
    names = TimelineNames(line, observer, kineto)
    host = HostModel(line)
    device = device_model(line, kineto) if kineto is not None else _no_device()
    collectives = find_collectives(line, names, observer, kineto, kernels)
    is_communication = np.zeros(len(line), np.bool_)
    is_communication[[c.row for c in collectives]] = True
    causes, counts = start_causes(line, device), Counter[str]()
    waits, replays = Waits(), list[Replay]()
    if kineto is not None:
        waits, replays = _device_causes(line, names, kineto, device, host, causes, counts)
    counts["communication_waits"] = add_asynchronous(line, names, kineto, collectives, host, causes)
    host.recorded_lag = host.lag.copy()
    started, refuted = causes.decide()
    fixed, wrong = _fixed_edges(line, names, observer, kineto, is_communication)
    counts["refuted_edges"] = len(refuted) + wrong
    return RankParts(
        rank=rank,
        observer=observer,
        kineto=kineto,
        pairs=pairs,
        twice=joined is not None,
        line=line,
        names=names,
        host=host,
        device=device,
        collectives=collectives,
        is_communication=is_communication,
        waits=waits,
        replays=replays,
        started=started,
        fixed=fixed,
        counts=counts,
        captures=captures,
        kernels=kernels,
    )


def _device_causes(
    line: Timeline,
    names: TimelineNames,
    kineto: Kineto,
    device: DeviceModel,
    host: HostModel,
    causes: Candidates,
    counts: Counter[str],
) -> tuple[Waits, list[Replay]]:
    """Adds what Kineto's records say that rows waited for; gives the waits and the replays of graphs."""
    replays = find_replays(line, names, kineto, device)
    counts["graph_joins"] = add_graph_causes(line, replays, causes, device.gap)
    counts["handovers"] = _hand_over(line, names, kineto, host)
    waits = add_waits(line, kineto, device, host)
    counts["event_waits"] = add_event_causes(line, names, kineto, device, causes)
    counts["programmatic_overlaps"] = overlaps(line, device)
    return waits, replays


def _fixed_edges(
    line: Timeline,
    names: TimelineNames,
    observer: Observer | None,
    kineto: Kineto | None,
    is_communication: Mask,
) -> tuple[list[Edges], int]:
    """Edges of autograd and of tensors, and how many of these the times refute."""
    backward = autograd_edges(line, kineto, observer).edges()
    if observer is None:
        return [backward], 0
    tensors, wrong = tensor_edges(line, names, observer, is_communication)
    return [backward, tensors.edges()], wrong


def captures_of(linked: Rank) -> list[Capture]:
    """The graphs that were captured while a rank was recorded."""
    if linked.kineto is None or not has_captures(linked.line, linked.names):
        return []
    work = work_of_rows(linked.line, linked.names, linked.observer, linked.kineto)
    return find_captures(
        GraphRecording(
            linked.line, linked.names, linked.kineto, linked.device, linked.attribution, *work
        )
    )


def _join(observer: Observer | None, kineto: Kineto | None) -> Join:
    if observer is None:
        return Join(np.empty(0, np.int64), {})
    if kineto is None:
        return Join(np.full(len(observer), -1, np.int64), {})
    return join(observer, kineto)


def _no_device() -> DeviceModel:
    none = np.empty(0, np.int64)
    return DeviceModel(none, none, none, 0, 0)


def _hand_over(line: Timeline, names: TimelineNames, kineto: Kineto, host: HostModel) -> int:
    """Backward threads: those where autograd's engine runs, called by where forward ran."""
    engine = names.where(lambda s: s.startswith("autograd::engine::evaluate_function"))
    workers = np.unique(line.thread[engine & (line.parent < 0) & line.is_host])
    total = 0
    for worker in workers.tolist():
        caller = _forward_thread(line, kineto, worker)
        # Autograd also runs functions of the CPU on the thread that called it, which began earlier.
        calls = caller in workers and _begins(host, worker) < _begins(host, caller)
        if caller >= 0 and caller != worker and not calls:
            total += host.hand_over(caller, worker)
    return total


def _begins(host: HostModel, thread: int) -> int:
    """When the first row of a thread starts."""
    return int(host.line.start[host.thread_rows(thread)[0]])


def _forward_thread(line: Timeline, kineto: Kineto, worker: int) -> int:
    """The thread most of a worker's backward operators come from; else the busiest other one."""
    number = {name[1]: i for i, name in enumerate(line.thread_names)}
    mine = kineto.flows.backward_tid == line.thread_names[worker][1]
    callers = Counter(kineto.flows.forward_tid[mine].tolist())
    if callers:
        return number.get(callers.most_common(1)[0][0], -1)
    busy = np.bincount(line.thread[line.is_host], minlength=len(line.thread_names))
    busy[worker] = 0
    return int(busy.argmax()) if busy.any() else -1


def _graph_overhead(
    overhead: Overhead | None, host: HostModel, replays: list[Replay], names: TimelineNames
) -> I64:
    """Take recording's cost out of launches of graphs; returns it by row. It was measured for CUDA alone."""
    nodes = np.zeros(len(host.line), np.int64)
    for replay in replays:
        if names[replay.call].startswith("cu"):
            nodes[replay.call] = len(replay.rows)
    return nodes * 0 if overhead is None else overhead.remove_from_graphs(host, nodes)


def _earlier(edges: Edges, waited: I64) -> Edges:
    """The edges, with the lag of each launch shortened by the time that recording added to its call."""
    launched = edges.kind == EdgeKind.LAUNCH
    lag = np.where(launched, np.maximum(edges.lag - waited[edges.src], 0), edges.lag)
    shorter = np.where(edges.lag > 0, lag, edges.lag)
    return Edges(edges.src, edges.dst, edges.kind, edges.form, shorter, edges.ctrl)


def _undilate(
    overhead: Overhead | None,
    host: HostModel,
    device: DeviceModel,
    observed: bool,
    is_communication: Mask,
) -> float:
    if overhead is None:
        return 0.0
    return overhead.remove(
        host, _launches(host, device), observed, _apart(host.line, is_communication)
    )


def _is_view(name: str) -> bool:
    """Whether this is a view of PyTorch; autograd records some again, without the prefix and for less."""
    return name.startswith("aten::") and name.removeprefix("aten::") in VIEWS


def _launches(host: HostModel, device: DeviceModel) -> Mask:
    """Calls that put work on a device."""
    launches = np.zeros(len(host.line), np.bool_)
    launches[device.call[device.call >= 0]] = True
    return launches


def _tracer_time(overhead: Overhead | None, host: HostModel, kineto: Kineto | None) -> int:
    """Takes out what the tracer says it did for itself; returns the nanoseconds."""
    if overhead is None or kineto is None:
        return 0
    tracer_ns = tracer_time(kineto, host)
    host.lag -= np.minimum(tracer_ns, np.maximum(host.lag, 0))
    return int(tracer_ns.sum())


def _apart(line: Timeline, is_communication: Mask) -> Mask:
    """Rows that recording does not slow: communication, what is inside it, and threads that poll."""
    inside = is_communication & line.is_host
    for _ in range(_DEEPEST):
        deeper = inside | (inside[line.parent] & (line.parent >= 0) & line.is_host)
        if (deeper == inside).all():
            break
        inside = deeper
    return np.asarray(inside | _polls(line))


def _polls(line: Timeline) -> Mask:
    """Rows of threads on which no operator runs, such as one that polls whether transfers are done."""
    works = np.zeros(len(line.thread_names) + 1, np.bool_)
    works[line.thread[line.is_host & (line.kind != Kind.CALL)]] = True
    return np.asarray(line.is_host & ~works[line.thread])
