"""One rank linked: from its two files to nodes, edges and what can be said about the matching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.graphs import (
    Capture,
    Graphs,
    Recorded,
    Replay,
    add_graph_causes,
    find_captures,
    find_replays,
    has_captures,
    name_rows,
)
from chakrakit.sources.pytorch.communication import Collective, find_collectives
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
from chakrakit.sources.pytorch.linking.overhead import Overhead, cost_seen, slowed
from chakrakit.sources.pytorch.linking.program_times import (
    ProgramTimes,
    corrected_times,
    recorded_times,
)
from chakrakit.sources.pytorch.linking.tracer_time import tracer_time
from chakrakit.sources.pytorch.match import Join, RowNames, Timeline, build_timeline, join
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.work import Attribution, attribute, work_of_rows
from chakrakit.trace.model import EdgeKind, Edges

_DEEPEST = 64


@dataclass
class Rank:
    """Everything known about one rank, rows in order of start.

    `line` is what was recorded; `times` are the rank's times, with what recording cost taken out
    where that was asked for. `own` is the time a scheduler gives a row: for host rows without what
    runs inside them and without waiting, for device rows what was measured.
    """

    rank: int
    observer: Observer | None
    kineto: Kineto | None
    joined: Join
    line: Timeline
    names: RowNames
    collectives: list[Collective]
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

    @property
    def own(self) -> I64:
        """What a scheduler gives each row."""
        return self.times.own


@dataclass
class RankParts:
    """A rank matched and its causes found, before anything is said about what recording cost.

    All that does not depend on that cost is here, so that several amounts can be tried on one rank.
    """

    rank: int
    observer: Observer | None
    kineto: Kineto | None
    pairs: Join
    twice: bool
    """Whether times come from a second pass, in which no observer ran."""
    line: Timeline
    names: RowNames
    host: HostModel
    device: DeviceModel
    collectives: list[Collective]
    is_communication: Mask
    """Rows that are communication."""
    waits: Waits
    replays: list[Replay]
    started: Edges
    """What rows start after, as recorded."""
    fixed: list[Edges]
    """Edges that no cost of recording changes."""
    counts: Counter[str]
    captures: Sequence[Capture]

    @property
    def observed(self) -> bool:
        """Whether the observer ran while these times were recorded."""
        return self.observer is not None and not self.twice

    def cost(self, card: Overhead) -> Overhead:
        """What recording cost: as its card says, or as the recording shows where that is more.

        Without launches the card alone counts, if it says anything.
        """
        operators, calls = slowed(self.host, _apart(self.line, self.is_communication))
        launches = _launches(self.host, self.device)
        single = launches.copy()
        single[[r.call for r in self.replays]] = False
        values = self.observer.values if self.observed and self.observer is not None else 0
        counts = int(operators.sum()), int(launches.sum()), int((calls & ~launches).sum())
        seen = cost_seen(self.line.duration[single], counts[0], values)
        both = [c.total_ns(*counts, self.observed) for c in (card, seen)]
        if both[0] >= both[1] or (both[0] and not launches.any()):
            return card
        return replace(seen, step_ns=card.step_ns, graph_node_ns=card.graph_node_ns)

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
        own = np.where(line.is_host, host.own, line.duration)
        # Communication takes its whole time, whatever copies its back end records inside it.
        own[is_communication] = line.duration[is_communication]
        edges = sound.edges
        if overhead is None:
            times = recorded_times(host, own, is_communication)
        else:
            times, edges = corrected_times(host, edges, own, is_communication, _polls(line))
        return Rank(
            self.rank,
            self.observer,
            self.kineto,
            self.pairs,
            line,
            self.names,
            self.collectives,
            self.attribution,
            self.device,
            edges,
            times,
            sound,
            self.waits,
            self.counts.copy(),
            undilated + float(waited.sum() + by_tracer) / 1e6,
        )

    def with_graphs(self, linked: Rank) -> Rank:
        """The rank with the rows of replayed graphs named."""
        if self.replays:
            known = [*self.captures, *captures_of(linked)]
            linked.graphs = name_rows(self.line, self.names, self.replays, known)
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
) -> RankParts:
    """What one rank's files say. `joined` overrides how they are paired.

    `captures` name the rows of replayed graphs, beside those that were captured in the recording.
    """
    pairs = joined or _join(observer, kineto)
    line = build_timeline(observer, kineto, pairs)
    names = RowNames(line, observer, kineto)
    host = HostModel(line)
    device = device_model(line, kineto) if kineto is not None else _no_device()
    found = find_collectives(line, names, observer, kineto)
    is_communication = np.zeros(len(line), np.bool_)
    is_communication[[c.row for c in found]] = True
    causes, counts = start_causes(line, device), Counter[str]()
    waits, replays = Waits(), list[Replay]()
    if kineto is not None:
        waits, replays = _device_causes(line, names, kineto, device, host, causes, counts)
    counts["communication_waits"] = add_asynchronous(line, names, kineto, found, host, causes)
    host.recorded_lag = host.lag.copy()
    started, refuted = causes.decide()
    fixed, wrong = _fixed_edges(line, names, observer, kineto, is_communication)
    counts["refuted_edges"] = len(refuted) + wrong
    return RankParts(
        rank,
        observer,
        kineto,
        pairs,
        joined is not None,
        line,
        names,
        host,
        device,
        found,
        is_communication,
        waits,
        replays,
        started,
        fixed,
        counts,
        captures,
    )


def _device_causes(
    line: Timeline,
    names: RowNames,
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
    names: RowNames,
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
        Recorded(linked.line, linked.names, linked.kineto, linked.device, linked.attribution, *work)
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


def _hand_over(line: Timeline, names: RowNames, kineto: Kineto, host: HostModel) -> int:
    """Backward threads: those where autograd's engine runs, called by where forward ran."""
    engine = names.where(lambda s: s.startswith("autograd::engine::evaluate_function"))
    workers = np.unique(line.thread[engine & (line.parent < 0) & line.is_host])
    total = 0
    for worker in workers.tolist():
        caller = _forward_thread(line, kineto, worker)
        if caller >= 0 and caller != worker:
            total += host.hand_over(caller, worker)
    return total


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
    overhead: Overhead | None, host: HostModel, replays: list[Replay], names: RowNames
) -> I64:
    """What recording cost each launch of a graph; taken out of the host's time. Measured for CUDA alone."""
    nodes = np.zeros(len(host.line), np.int64)
    for replay in replays:
        if names[replay.call].startswith("cu"):
            nodes[replay.call] = len(replay.rows)
    return nodes * 0 if overhead is None else overhead.remove_from_graphs(host, nodes)


def _earlier(edges: Edges, waited: I64) -> Edges:
    """Launch edges of calls that recording slowed, by as much shorter as the calls are."""
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


def _launches(host: HostModel, device: DeviceModel) -> Mask:
    """Calls that put work on a device."""
    launches = np.zeros(len(host.line), np.bool_)
    launches[device.call[device.call >= 0]] = True
    return launches


def _tracer_time(overhead: Overhead | None, host: HostModel, kineto: Kineto | None) -> int:
    """Takes out what the tracer says it did for itself; returns the nanoseconds."""
    if overhead is None or kineto is None:
        return 0
    taken = tracer_time(kineto, host)
    host.lag -= np.minimum(taken, np.maximum(host.lag, 0))
    return int(taken.sum())


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
    """Rows of threads on which no operator runs: such as one that asks whether transfers are done."""
    works = np.zeros(len(line.thread_names) + 1, np.bool_)
    works[line.thread[line.is_host & (line.kind != Kind.CALL)]] = True
    return np.asarray(line.is_host & ~works[line.thread])
