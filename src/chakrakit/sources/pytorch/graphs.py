"""CUDA and HIP graphs: captures, whose launches name operators, and replays, whose kernels need them.

A capture file holds launches without kernels. Their order is the order in which the graph's nodes were
made, which is how a replay's kernels find their operators again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.attribution import Attribution, batch_of
from chakrakit.sources.pytorch.edges import Candidates, DeviceModel
from chakrakit.sources.pytorch.read import Kind, Kineto
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, nearest
from chakrakit.trace.model import EdgeForm, EdgeKind

BEGIN = r"^(cuda|hip)StreamBeginCapture|^cuStreamBeginCapture"
END = r"^(cuda|hip)StreamEndCapture|^cuStreamEndCapture"
LAUNCH = (
    r"^(cuda|cu|hip|hipExt|hipModule|hipExtModule)Launch(Cooperative)?(Kernel|Device)|"
    r"^(cuda|cu|hip)(Memcpy|Memset)\w*Async|^hipMemcpyWithStream|^cu(Memcpy|Memset)\w*Async"
)
_LABEL = re.compile(r"^capture_(\d+)_(\w+)$")


@dataclass(frozen=True)
class CapturedOperator:
    """The operator that a captured launch belongs to."""

    name: str
    shapes: str
    types: str
    module: str
    layer: int
    phase: int
    call: int
    """Which call of the operator: launches of one call share its work."""
    flops: int
    moved: int
    strides: str = ""
    values: str = ""


@dataclass(frozen=True)
class Capture:
    """One graph as it was captured: an operator per node in the order of the launches.

    `batch` and `mode` come from the serving engine's annotation; -1 and "" where there is none.
    """

    batch: int
    mode: str
    operators: list[CapturedOperator]
    kinds: list[Kind]

    def __len__(self) -> int:
        return len(self.operators)


@dataclass(frozen=True)
class GraphRecording:
    """One recording as far as graphs are concerned; `flops` and `moved` are the work of its rows."""

    line: Timeline
    names: TimelineNames
    kineto: Kineto
    device: DeviceModel
    attribution: Attribution
    flops: I64
    moved: I64


def has_captures(line: Timeline, names: TimelineNames) -> bool:
    """Whether a graph was captured while this was recorded."""
    return bool(((line.kind == Kind.CALL) & names.matching(BEGIN)).any())


def find_captures(recorded: GraphRecording) -> list[Capture]:
    """The captures of a recording, in order."""
    line, names = recorded.line, recorded.names
    is_call = (line.kind == Kind.CALL) & line.is_host
    begins = np.flatnonzero(is_call & names.matching(BEGIN))
    ends = np.flatnonzero(is_call & names.matching(END))
    launches = np.flatnonzero(is_call & names.matching(LAUNCH) & ~_ran(recorded))
    launches = _outermost(line, launches)
    describe = _Describer(recorded)
    out = []
    for begin in begins.tolist():
        after = ends[line.start[ends] > line.end[begin]]
        until = int(line.start[after[0]]) if len(after) else int(line.end.max())
        when = line.start[launches]
        mine = launches[(when >= line.end[begin]) & (when <= until)]
        if len(mine):
            out.append(describe.capture(begin, mine))
    return out


def _ran(recorded: GraphRecording) -> Mask:
    """Calls whose kernels are in the file, so that they were not captured."""
    ran = np.zeros(len(recorded.line), np.bool_)
    call = recorded.device.call
    ran[call[call >= 0]] = True
    return ran


def _outermost(line: Timeline, launches: I64) -> I64:
    """Launches without those inside others: a runtime's launch may contain the driver's."""
    inside = np.zeros(len(line), np.bool_)
    inside[launches] = True
    parent = line.parent[launches]
    outer: I64 = launches[(parent < 0) | ~inside[np.maximum(parent, 0)]]
    return outer


class _Describer:
    """Finds the operator, shapes and module that captured launches belong to."""

    def __init__(self, recorded: GraphRecording) -> None:
        self.recorded = recorded
        line, names = recorded.line, recorded.names
        self.operator = nearest(line, (line.kind == Kind.OPERATOR) & line.is_host)
        self.label = nearest(line, names.where(_LABEL.match) & line.is_host)

    def capture(self, begin: int, launches: I64) -> Capture:
        batch, mode = self._labelled(begin)
        rows = launches.tolist()
        return Capture(
            batch, mode, [self._operator(r) for r in rows], [self._kind(r) for r in rows]
        )

    def _labelled(self, begin: int) -> tuple[int, str]:
        """The annotation around a capture."""
        row = int(self.label[begin])
        match = _LABEL.match(self.recorded.names[row]) if row >= 0 else None
        return (int(match[1]), match[2]) if match else (-1, "")

    def _kind(self, row: int) -> Kind:
        name = self.recorded.names[row]
        return Kind.MEMCPY if "emcpy" in name else Kind.MEMSET if "emset" in name else Kind.KERNEL

    def _operator(self, row: int) -> CapturedOperator:
        at = int(self.operator[row])
        if at < 0:
            return CapturedOperator("", "", "", *self._place(row), -1, 0, 0)
        recorded = self.recorded
        shapes, types = (self._text(at, column) for column in ("in_dims", "in_types"))
        work = int(recorded.flops[at]), int(recorded.moved[at])
        rest = [self._text(at, column) for column in ("in_strides", "in_values")]
        return CapturedOperator(
            recorded.names[at], shapes, types, *self._place(row), at, *work, *rest
        )

    def _text(self, row: int, column: str) -> str:
        kineto, event = self.recorded.kineto, int(self.recorded.line.event[row])
        return kineto.texts[int(kineto.text_columns[column][event])] if event >= 0 else ""

    def _place(self, row: int) -> tuple[str, int, int]:
        attribution = self.recorded.attribution
        module = (
            attribution.modules[int(attribution.module[row])]
            if attribution.module[row] >= 0
            else ""
        )
        return module, int(attribution.layer[row]), int(attribution.phase[row])


# Replays: the device's rows of one launch of a graph, in the order of its nodes, and their operators.
GRAPH_LAUNCH = r"^(cuda|hip|cu)GraphLaunch"
_GENERATED = re.compile(r"^triton_")
_MISSING = 0.02
"""Share of a graph's nodes that a recording may lack and still be aligned with its capture."""


@dataclass(frozen=True)
class Replay:
    """One launch of a graph: the host's call and the device's rows in the order of the graph's nodes."""

    call: int
    rows: I64


@dataclass
class Graphs:
    """All replays of a rank, and the operator of each row that a capture names."""

    replays: list[Replay] = field(default_factory=list)
    operators: dict[int, CapturedOperator] = field(default_factory=dict)
    unmatched: int = 0
    """Replays for which no capture fits."""
    aligned: int = 0
    """Replays with a capture that has a few nodes more or less, aligned by names."""
    captured: list[int] = field(default_factory=list)
    """How many nodes each capture has."""

    @property
    def kernels(self) -> int:
        """How many rows the replays have."""
        return sum(len(r.rows) for r in self.replays)


def find_replays(
    line: Timeline, names: TimelineNames, kineto: Kineto, device: DeviceModel
) -> list[Replay]:
    """Launches of graphs with what they ran.

    NVIDIA numbers a graph's nodes in the order they were made; elsewhere rows count by their start.
    """
    is_launch = (line.kind == Kind.CALL) & names.matching(GRAPH_LAUNCH)
    mine = device.call >= 0
    rows, call = device.rows[mine], device.call[mine]
    in_graph = is_launch[call]
    rows, call = rows[in_graph], call[in_graph]
    node = kineto.graph_node[line.event[rows]]
    order = np.lexsort((line.start[rows], np.where(node > 0, node, 0), call))
    rows, call = rows[order], call[order]
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.r_[True, call[1:] != call[:-1]])
    ends = np.r_[cuts[1:], len(rows)]
    return [Replay(int(call[a]), rows[a:b]) for a, b in zip(cuts, ends, strict=True)]


def name_rows(
    line: Timeline, names: TimelineNames, replays: list[Replay], captures: Sequence[Capture]
) -> Graphs:
    """Give every replayed row its operator, where a capture with as many nodes fits the replay."""
    graphs = Graphs(replays, captured=[len(c) for c in captures])
    labelled = nearest(line, names.where(lambda s: batch_of(s) is not None) & line.is_host)
    for replay in replays:
        batch = batch_of(names[int(labelled[replay.call])]) if labelled[replay.call] >= 0 else None
        capture = _fitting(line, names, replay, captures, batch)
        if capture is not None:
            graphs.operators |= dict(zip(replay.rows.tolist(), capture.operators, strict=True))
        elif operators := _aligned(names, replay, captures):
            graphs.operators |= operators
            graphs.aligned += 1
        else:
            graphs.unmatched += 1
    return graphs


def _aligned(
    names: TimelineNames, replay: Replay, captures: Sequence[Capture]
) -> dict[int, CapturedOperator]:
    """Operators by row from a capture with nearly as many nodes; {} if none fits.

    Tracers lose a node now and then. Kernels that a compiler generated are called like their operators, so
    that they show where nodes are missing.
    """
    best: dict[int, CapturedOperator] = {}
    rows = replay.rows.tolist()
    for capture in captures:
        if abs(len(capture) - len(rows)) > _MISSING * len(rows):
            continue
        called = [o.name if _GENERATED.match(o.name) else "" for o in capture.operators]
        ran = [_called(names[row], set(called)) for row in rows]
        if not any(ran):
            continue
        blocks = SequenceMatcher(None, ran, called, autojunk=False).get_matching_blocks()
        pairs = [(rows[a + i], capture.operators[b + i]) for a, b, n in blocks for i in range(n)]
        if len(pairs) >= (1 - _MISSING) * len(rows) and len(pairs) > len(best):
            best = dict(pairs)
    return best


def _called(name: str, generated: set[str]) -> str:
    """The generated operator that a kernel belongs to, "" for other kernels."""
    if not _GENERATED.match(name) or name in generated:
        return name if name in generated else ""
    return next((g for g in generated if g and name.startswith(g)), "")


def _fitting(
    line: Timeline,
    names: TimelineNames,
    replay: Replay,
    captures: Sequence[Capture],
    batch: int | None,
) -> Capture | None:
    """Of the captures with the replay's number of nodes, the one most alike.

    Serving engines pad a batch to the next size they captured, so that of several that fit equally
    well the smallest that holds the batch is taken.
    """
    same = [c for c in captures if len(c) == len(replay.rows)]
    if not same:
        return None
    tokens = batch or 0

    def rank(c: Capture) -> tuple[int, bool, int]:
        return _alike(line, names, replay, c), c.batch >= tokens, -c.batch

    best = max(same, key=rank)
    return best if _alike(line, names, replay, best) >= 0 else None


def _alike(line: Timeline, names: TimelineNames, replay: Replay, capture: Capture) -> int:
    """How well a capture fits: rows named like their generated code; -1 if a copy would be a kernel."""
    hits = 0
    for row, kind, operator in zip(
        replay.rows.tolist(), capture.kinds, capture.operators, strict=True
    ):
        moves = line.kind[row] in (Kind.MEMCPY, Kind.MEMSET)
        # A driver may do a copy or a fill with a kernel, never a kernel with a copy.
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
