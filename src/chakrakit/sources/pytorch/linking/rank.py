"""One rank linked: from its two files to nodes, edges and what can be said about the matching."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.communication import Collective, find_collectives
from chakrakit.sources.pytorch.edges import (
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
from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.match import Join, RowNames, Timeline, build_timeline, join
from chakrakit.sources.pytorch.read import Kineto, Observer
from chakrakit.sources.pytorch.work import Attribution, attribute
from chakrakit.trace.model import Edges


@dataclass
class Rank:
    """Everything known about one rank, rows in order of start.

    `own` is the time a scheduler gives a row: for host rows without what runs inside them and
    without waiting, for device rows what was measured.
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
    own: I64
    sound: SoundGraph
    waits: Waits
    counts: Counter[str] = field(default_factory=Counter)
    undilated_ms: float = 0.0
    overhead_factor: float = 1.0


def link_rank(
    rank: int,
    observer: Observer | None,
    kineto: Kineto | None,
    joined: Join | None = None,
    overhead: Overhead | None = None,
) -> Rank:
    """Link one rank. Either file may be missing; `joined` overrides how they are paired."""
    pairs = joined or _join(observer, kineto)
    line = build_timeline(observer, kineto, pairs)
    names = RowNames(line, observer, kineto)
    host = HostModel(line)
    counts: Counter[str] = Counter()
    device = device_model(line, kineto) if kineto is not None else _no_device()
    found = find_collectives(line, names, observer, kineto)
    causes = start_causes(line, device)
    waits = Waits()
    if kineto is not None:
        counts["handovers"] = _hand_over(line, names, kineto, host)
        waits = add_waits(line, kineto, device, host)
        counts["event_waits"] = add_event_causes(line, names, kineto, device, causes)
        counts["programmatic_overlaps"] = overlaps(line, device)
    counts["communication_waits"] = add_asynchronous(line, names, found, host, causes)
    undilated = _undilate(overhead, host, device, observer is not None and joined is None)
    started, refuted = causes.settle()
    counts["refuted_edges"] = len(refuted)
    parts = [started, host.edges().edges(), autograd_edges(line, kineto, observer).edges()]
    if observer is not None:
        is_comm = np.zeros(len(line), np.bool_)
        is_comm[[c.row for c in found]] = True
        tensors, wrong = tensor_edges(line, names, observer, is_comm)
        counts["refuted_edges"] += wrong
        parts.append(tensors.edges())
    sound = make_sound(line, Edges.concat(parts))
    own = np.where(line.is_host, host.own, line.duration)
    # Communication takes its whole time, whatever copies its back end records inside it.
    rows = np.array([c.row for c in found], np.int64)
    own[rows] = line.duration[rows]
    return Rank(
        rank,
        observer,
        kineto,
        pairs,
        line,
        names,
        found,
        attribute(line, names, observer, kineto),
        device,
        sound.edges,
        own,
        sound,
        waits,
        counts,
        undilated,
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


def _undilate(
    overhead: Overhead | None, host: HostModel, device: DeviceModel, observed: bool
) -> float:
    if overhead is None:
        return 0.0
    launches = np.zeros(len(host.line), np.bool_)
    launches[device.call[device.call >= 0]] = True
    return overhead.remove(host, launches, observed)
