"""What a trace holds, counted in one pass and bounded memory."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from chakrakit.trace.formats import Source, scan_trace
from chakrakit.trace.schema import NodeType, collective_name, node_type_name
from chakrakit.trace.store import rank_files, read
from chakrakit.trace.trace import Trace


class EdgeCounts(msgspec.Struct):
    """Entries of the two dependency lists."""

    data: int = 0
    ctrl: int = 0


class Communication(msgspec.Struct):
    """Communication nodes of one kind in one group."""

    type: str
    group: str
    count: int
    bytes: int


class Info(msgspec.Struct, kw_only=True):
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
    communication: list[Communication] = []
    attributes: dict[str, int] = {}
    raw_attributes: int = 0
    versions: list[str] = []


class _Counts:
    """Sums over the pieces of the traces, each counted for as many ranks as run it."""

    def __init__(self) -> None:
        self.nodes = self.data = self.ctrl = self.ops = self.raw = 0
        self.types: Counter[int] = Counter()
        self.attributes: Counter[str] = Counter()
        self.comm: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.first: int | None = None
        self.last = 0
        self.versions: dict[str, None] = {}

    def add(self, piece: Trace, ranks: int) -> None:
        table = piece.table
        self.nodes += len(piece) * ranks
        self.data += _entries(piece, "data_deps") * ranks
        self.ctrl += _entries(piece, "ctrl_deps") * ranks
        codes, counts = np.unique(piece.types, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            self.types[code] += count * ranks
        for name in table.column_names:
            present = len(piece) - table.column(name).null_count
            if name == "_raw":
                self.raw += present * ranks
            elif not name.startswith("_") and present:
                self.attributes[name] += present * ranks
        if "num_ops" in table.column_names:
            self.ops += int(piece.column("num_ops", 0).sum()) * ranks
        self._add_times(piece)
        self._add_communication(piece, ranks)
        self.versions.setdefault(piece.metadata.version)

    def _add_times(self, piece: Trace) -> None:
        if not len(piece) or not piece.is_timed:
            return
        first = int(piece.start_ns.min())
        self.first = first if self.first is None else min(self.first, first)
        self.last = max(self.last, int(piece.end_ns.max()))

    def _add_communication(self, piece: Trace, ranks: int) -> None:
        rows = np.flatnonzero(
            piece.is_type(NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
        )
        if not len(rows):
            return
        part = piece.select(rows)
        kinds = np.where(part.is_type(NodeType.COMM_COLL_NODE), part.column("comm_type", -1), -2)
        names = part.column("pg_name", "") if part.has("pg_name").any() else [""] * len(part)
        sizes = part.column("comm_size", 0)
        for kind, code, group, size in zip(kinds, part.types, names, sizes, strict=True):
            key = (_kind_name(int(kind), int(code)), str(group))
            self.comm[key] += ranks
            self.bytes[key] += int(size) * ranks


def _kind_name(kind: int, code: int) -> str:
    if kind == -2:
        return node_type_name(code).removeprefix("COMM_").removesuffix("_NODE")
    return "UNKNOWN" if kind == -1 else collective_name(kind)


def _entries(piece: Trace, column: str) -> int:
    return sum(len(c.flatten()) for c in piece.table.column(column).chunks)


def describe(path: Source) -> Info:
    """Counts what is behind a path. A stream is read once; nothing is kept."""
    files = rank_files(path)
    counts = _Counts()
    if len(files) == 1 and 0 in files and not _has_directory(path):
        for piece in scan_trace(files[0]):
            counts.add(piece, 1)
        info = Info(ranks=1, world_size=1)
    else:
        traces = read(path)
        used = Counter(b.body for b in traces.bindings.values())
        for number, file in enumerate(files.values()):
            for piece in scan_trace(file):
                counts.add(piece, used[number])
        info = Info(
            ranks=len(traces),
            bodies=len(files),
            groups=len(traces.groups),
            world_size=traces.world_size,
            missing_ranks=list(traces.missing_ranks),
        )
    return _filled(info, counts)


def _has_directory(path: Source) -> bool:
    from pathlib import Path

    return isinstance(path, (str, Path)) and Path(path).is_dir()


def _filled(info: Info, counts: _Counts) -> Info:
    info.nodes = counts.nodes
    info.edges = EdgeCounts(counts.data, counts.ctrl)
    info.types = {node_type_name(c): n for c, n in sorted(counts.types.items())}
    info.timed = counts.first is not None
    info.span_ns = counts.last - (counts.first or 0) if info.timed else 0
    info.compute_ops = counts.ops
    info.communication = [
        Communication(kind, group, counts.comm[kind, group], counts.bytes[kind, group])
        for kind, group in sorted(counts.comm)
    ]
    info.attributes = dict(sorted(counts.attributes.items()))
    info.raw_attributes = counts.raw
    info.versions = [v for v in counts.versions if v]
    return info
