"""What a trace holds, counted in one pass and bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.results import Result
from chakrakit.trace.codecs import scan_trace
from chakrakit.trace.communication import (
    UNKNOWN,
    CallsReader,
    Groups,
    group_names,
    groups_in,
    own_rank,
)
from chakrakit.trace.files import Source
from chakrakit.trace.model import (
    COMMUNICATION,
    NodeType,
    Trace,
    collective_name,
    columns,
    node_type_name,
)
from chakrakit.trace.sets import Run, TraceSet, subject_of
from chakrakit.trace.storage import (
    groups_beside_file,
    is_stream,
    named_rank,
    place_of,
    rank_files,
    read,
)


class EdgeCounts(Result, msgspec.Struct):
    """Entries of the two dependency lists."""

    data: int = 0
    ctrl: int = 0


class CommunicationLine(Result, msgspec.Struct):
    """Communication nodes of one kind in one group."""

    type: str
    group: str
    count: int
    bytes: int
    ranks: int = 0
    """Ranks that have such nodes."""


class Info(Result, msgspec.Struct, kw_only=True):
    """Totals over all ranks."""

    ranks: int
    nodes: int = 0
    edges: EdgeCounts = msgspec.field(default_factory=EdgeCounts)
    types: dict[str, int] = {}
    groups: int = 0
    bodies: int = 1
    world_size: int = 0
    missing_ranks: list[int] = []
    timed: bool = False
    span_ns: int = 0
    compute_ops: int = 0
    communication: list[CommunicationLine] = []
    attributes: dict[str, int] = {}
    raw_attributes: int = 0
    """Nodes with attributes whose value does not fit its column."""
    versions: list[str] = []
    subject: dict[str, str] = {}
    """What the card says the traces are of: model, plan, batch, machine, tokens per second."""
    steps: int = 0
    """Training steps that nodes say they belong to."""


class _Counts:
    """Sums over the pieces of the traces, each counted for as many ranks as run it."""

    def __init__(self) -> None:
        self.nodes = self.data = self.ctrl = self.ops = self.raw = 0
        self.types: Counter[int] = Counter()
        self.attributes: Counter[str] = Counter()
        self.comm: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.callers: dict[tuple[str, str], dict[int, int]] = {}
        """By kind and group, the bodies that have such nodes and how many ranks run each."""
        self.first: int | None = None
        self.last = 0
        self.versions: dict[str, None] = {}
        self.steps: set[int] = set()

    def add(self, piece: Trace, ranks: int, body: int = 0) -> None:
        table = piece.table
        self.nodes += len(piece) * ranks
        self.data += _entries(piece, "data_deps") * ranks
        self.ctrl += _entries(piece, "ctrl_deps") * ranks
        codes, counts = np.unique(piece.types, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            self.types[code] += count * ranks
        for column in table.column_names:
            present = len(piece) - table.column(column).null_count
            name = columns.attribute_name(column)
            if column == "_raw":
                self.raw += present * ranks
            elif name is not None and present:
                self.attributes[name] += present * ranks
        if "step" in table.column_names:
            self.steps.update(np.unique(piece.column("step", -1)).tolist())
        if "num_ops" in table.column_names:
            self.ops += _sum(piece.column("num_ops", 0)) * ranks
        self._add_times(piece)
        self._add_communication(piece, ranks, body)
        self.versions.setdefault(piece.metadata.version)

    def _add_times(self, piece: Trace) -> None:
        if not len(piece) or not piece.is_timed:
            return
        first = int(piece.start_ns.min())
        self.first = first if self.first is None else min(self.first, first)
        self.last = max(self.last, int(piece.end_ns.max()))

    def _add_communication(self, piece: Trace, ranks: int, body: int) -> None:
        rows = np.flatnonzero(piece.is_type(*COMMUNICATION))
        if not len(rows):
            return
        codes, kinds = piece.types[rows], piece.column("comm_type", UNKNOWN)[rows].astype(np.int64)
        kinds = np.where(codes == NodeType.COMM_COLL_NODE, kinds, -2 - codes)
        groups = group_names(piece, rows).dictionary_encode()
        sizes = np.maximum(piece.column("comm_size", 0)[rows].astype(np.int64), 0)
        keys = np.stack([kinds, groups.indices.to_numpy(zero_copy_only=False)])
        distinct, inverse = np.unique(keys, axis=1, return_inverse=True)
        names = groups.dictionary.to_pylist()
        for number, (kind, group) in enumerate(distinct.T.tolist()):
            key_sizes = sizes[inverse.reshape(-1) == number]
            key = (_kind_name(kind), names[group])
            self.comm[key] += len(key_sizes) * ranks
            self.bytes[key] += _sum(key_sizes) * ranks
            self.callers.setdefault(key, {})[body] = ranks


def _kind_name(kind: int) -> str:
    """Of a collective, its type; of a message, which end it is (-2 minus the node's type)."""
    if kind <= -2:
        return node_type_name(-2 - kind).removeprefix("COMM_").removesuffix("_NODE")
    return "UNKNOWN" if kind == UNKNOWN else collective_name(kind)


def _sum(values: I64) -> int:
    """The exact sum, however large."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _entries(piece: Trace, column: str) -> int:
    return sum(len(c.flatten()) for c in piece.table.column(column).chunks)


def describe(path: Source) -> Info:
    """Counts what is behind a path. A stream is read once; nothing is kept."""
    if is_stream(path) or place_of(path).is_file():
        return _describe_file(path)
    files = rank_files(path)
    traces = read(path)
    bodies = [scan_trace(file) for file in files.values()]
    return _described(traces, bodies)


def describe_traces(traces: TraceSet) -> Info:
    """Counts what traces in memory hold."""
    return _described(traces, [[traces.body_at(i)] for i in range(traces.body_count)])


def _described(traces: TraceSet, bodies: Iterable[Iterable[Trace]]) -> Info:
    counts = _Counts()
    used = Counter(b.body for b in traces.bindings.values())
    for number, pieces in enumerate(bodies):
        for piece in pieces:
            counts.add(piece, used[number], number)
    info = _filled(counts, traces.groups, traces.ranks)
    info.bodies, info.subject = len(used), subject_of(traces.card)
    if isinstance(traces, Run) and traces.times is not None:
        info.timed, info.span_ns = True, round(traces.makespan_ns)
    return info


def _describe_file(source: Source) -> Info:
    counts, groups, calls, rank = _Counts(), Groups(), CallsReader(), None
    if not is_stream(source):
        file = Path(source)  # type: ignore[arg-type]
        groups, rank = groups_beside_file(file), named_rank(file)
    for piece in scan_trace(source):
        counts.add(piece, 1)
        groups = groups.merged(groups_in(piece))
        if rank is None:
            calls.add(piece)
    return _filled(counts, groups, (own_rank(calls.finish(), groups) if rank is None else rank,))


def _filled(counts: _Counts, groups: Groups, ranks: tuple[int, ...]) -> Info:
    group_ranks = {r for members in groups.values() for r in members}
    info = Info(
        ranks=len(ranks),
        groups=len(groups),
        world_size=max([*group_ranks, *ranks], default=-1) + 1,
        missing_ranks=sorted(group_ranks - set(ranks)),
    )
    info.nodes = counts.nodes
    info.edges = EdgeCounts(counts.data, counts.ctrl)
    info.types = {node_type_name(c): n for c, n in sorted(counts.types.items())}
    info.timed = counts.first is not None
    info.span_ns = counts.last - (counts.first or 0) if info.timed else 0
    info.compute_ops = counts.ops
    info.steps = len(counts.steps - {-1})
    info.communication = [
        CommunicationLine(
            *key, counts.comm[key], counts.bytes[key], sum(counts.callers[key].values())
        )
        for key in sorted(counts.comm)
    ]
    info.attributes = dict(sorted(counts.attributes.items()))
    info.raw_attributes = counts.raw
    info.versions = [v for v in counts.versions if v]
    return info
