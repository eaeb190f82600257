"""Graphs being replayed: the device's rows of one launch, in the graph's own order, and their operators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.graphs.captures import Capture, Operator
from chakrakit.sources.pytorch.edges import Candidates, DeviceModel
from chakrakit.sources.pytorch.match import RowNames, Timeline, nearest
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.sources.pytorch.work import batch_of
from chakrakit.trace.model import EdgeForm, EdgeKind

GRAPH_LAUNCH = r"^(cuda|hip|cu)GraphLaunch"
_GENERATED = re.compile(r"^triton_")


@dataclass(frozen=True)
class Replay:
    """One launch of a graph: the host's call and the device's rows in the order of the graph's nodes."""

    call: int
    rows: I64


@dataclass
class Graphs:
    """All replays of a rank, and the operator of each row that a capture names."""

    replays: list[Replay] = field(default_factory=list)
    operators: dict[int, Operator] = field(default_factory=dict)
    unmatched: int = 0
    """Replays for which no capture fits."""

    @property
    def kernels(self) -> int:
        """How many rows the replays have."""
        return sum(len(r.rows) for r in self.replays)


def find_replays(
    line: Timeline, names: RowNames, kineto: Kineto, device: DeviceModel
) -> list[Replay]:
    """Launches of graphs with what they ran.

    NVIDIA numbers a graph's nodes in the order they were made; elsewhere rows count by their start.
    """
    is_launch = (line.kind == Kind.CALL) & names.matching(GRAPH_LAUNCH)
    mine = device.call >= 0
    rows, call = device.rows[mine], device.call[mine]
    chosen = is_launch[call]
    rows, call = rows[chosen], call[chosen]
    node = kineto.graph_node[line.event[rows]]
    order = np.lexsort((line.start[rows], np.where(node > 0, node, 0), call))
    rows, call = rows[order], call[order]
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.r_[True, call[1:] != call[:-1]])
    ends = np.r_[cuts[1:], len(rows)]
    return [Replay(int(call[a]), rows[a:b]) for a, b in zip(cuts, ends, strict=True)]


def name_rows(
    line: Timeline, names: RowNames, replays: list[Replay], captures: Sequence[Capture]
) -> Graphs:
    """Give every replayed row its operator, where a capture with as many nodes fits the replay."""
    graphs = Graphs(replays)
    labelled = nearest(line, names.where(lambda s: batch_of(s) is not None) & line.is_host)
    for replay in replays:
        batch = batch_of(names[int(labelled[replay.call])]) if labelled[replay.call] >= 0 else None
        capture = _fitting(line, names, replay, captures, batch)
        if capture is None:
            graphs.unmatched += 1
            continue
        graphs.operators |= dict(zip(replay.rows.tolist(), capture.operators, strict=True))
    return graphs


def _fitting(
    line: Timeline, names: RowNames, replay: Replay, captures: Sequence[Capture], batch: int | None
) -> Capture | None:
    """Of the captures with the replay's number of nodes, the one most alike.

    Serving engines pad a batch to the next size they captured, so that of equals the smallest that
    holds the batch is meant.
    """
    same = [c for c in captures if len(c) == len(replay.rows)]
    if not same:
        return None
    wanted = batch or 0

    def rank(c: Capture) -> tuple[int, bool, int]:
        return _alike(line, names, replay, c), c.batch >= wanted, -c.batch

    best = max(same, key=rank)
    return best if _alike(line, names, replay, best) >= 0 else None


def _alike(line: Timeline, names: RowNames, replay: Replay, capture: Capture) -> int:
    """How many rows have the name of the code generated for them; -1 if the kinds of work differ."""
    hits = 0
    for row, kind, operator in zip(
        replay.rows.tolist(), capture.kinds, capture.operators, strict=True
    ):
        moves = line.kind[row] in (Kind.MEMCPY, Kind.MEMSET)
        # A driver may do a copy or a fill with a kernel of its own, never a kernel with a copy.
        if moves and kind == Kind.KERNEL:
            return -1
        if _GENERATED.match(operator.name):
            hits += 1 if names[row].startswith(operator.name) else -1
    return max(hits, 0)


def add_graph_causes(line: Timeline, replays: list[Replay], causes: Candidates, gap: int) -> int:
    """Between streams of one replay: a row waits for what ended last before it on another stream.

    A recording does not say which nodes depend on which. Where a row's own stream was idle before it,
    something else in the graph held it back. Returns how many such causes were added.
    """
    total = 0
    for replay in replays:
        lanes = np.unique(line.lane[replay.rows])
        if len(lanes) > 1:
            source, target = _joins(line, replay.rows, gap)
            causes.add(EdgeKind.EVENT, EdgeForm.FINISH_START, source, target, gap)
            total += len(source)
    return total


def _joins(line: Timeline, rows: I64, gap: int) -> tuple[I64, I64]:
    by_start = rows[np.argsort(line.start[rows], kind="stable")]
    by_end = rows[np.argsort(line.end[rows], kind="stable")]
    last_of: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for row in by_start.tolist():
        lane = int(line.lane[row])
        before = last_of.get(lane)
        ready = int(line.end[before]) if before is not None else -1
        last_of[lane] = row
        if before is not None and line.start[row] - ready <= 2 * gap:
            continue
        place = int(np.searchsorted(line.end[by_end], line.start[row], side="right")) - 1
        if place >= 0 and line.lane[by_end[place]] != lane and line.end[by_end[place]] > ready:
            pairs.append((int(by_end[place]), row))
    both = np.array(pairs, np.int64).reshape(-1, 2).T
    return both[0], both[1]
