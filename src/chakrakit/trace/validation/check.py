"""Validation from end to end: each body is read once, in pieces; then the ranks are compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, U64
from chakrakit.errors import ConfigError, FormatError, TraceError
from chakrakit.parallel import Workers, spread
from chakrakit.trace.codecs import et, scan_trace
from chakrakit.trace.communication import Binding, Body, Groups, groups_in, own_rank
from chakrakit.trace.files import STDIO, Source
from chakrakit.trace.memory import model_state
from chakrakit.trace.model import Graph, NodeType, Trace
from chakrakit.trace.sets import Run, TraceSet, recorded_step_of
from chakrakit.trace.storage import (
    carried_card,
    groups_beside_file,
    named_rank,
    place_of,
    rank_files,
    read,
)
from chakrakit.trace.validation.communication import (
    BodyCommunication,
    CommunicationReader,
    RanksToCheck,
)
from chakrakit.trace.validation.findings import KEEP, Finding, Findings, ValidationReport
from chakrakit.trace.validation.graph import GraphChecker
from chakrakit.trace.validation.nodes import check_nodes
from chakrakit.trace.validation.ranks import check_ranks
from chakrakit.trace.validation.times import check_times

MOST_NODES = 2_000_000
"""Traces with more have no plain reading: all nodes would have to stay in memory, some 60 bytes each."""


class PlainReading:
    """Collects a body's pieces to tell how long it takes if read plainly, and by its own times, in ns.

    Read plainly, each node starts after all that it depends on, and takes its whole duration.
    """

    def __init__(self) -> None:
        self._ids: list[U64] = []
        self._start: list[I64] = []
        self._duration: list[I64] = []
        self._deps: list[tuple[U64, I64]] = []
        self._rows = 0
        self._complete = True

    def add(self, piece: Trace) -> None:
        """The next nodes."""
        self._complete &= self._rows + len(piece) <= MOST_NODES
        if not self._complete:
            self._ids, self._start, self._duration, self._deps = [], [], [], []
            return
        self._ids.append(piece.ids)
        self._start.append(piece.start_ns)
        self._duration.append(np.maximum(piece.duration_ns, 0))
        for name in ("data_deps", "ctrl_deps"):
            ids, rows = _listed(piece.table.column(name))
            self._deps.append((ids, rows + self._rows))
        self._rows += len(piece)

    def finish(self) -> tuple[int, int] | None:
        """(own span, plain span); None where there are no times, a cycle, or too many nodes."""
        if not self._complete or not self._rows:
            return None
        ids, start = np.concatenate(self._ids), np.concatenate(self._start)
        duration = np.concatenate(self._duration)
        if not duration.any() or not (start > start.min()).any():
            return None
        src, dst = self._edges(ids)
        try:
            finish, _ = Graph(len(ids), src, dst).longest_path(duration)
        except TraceError:
            return None  # a cycle is another finding
        ran = duration > 0
        return int((start + duration)[ran].max() - start[ran].min()), int(finish.max())

    def _edges(self, ids: U64) -> tuple[I64, I64]:
        order = np.argsort(ids, kind="stable")
        parent_ids = np.concatenate([d for d, _ in self._deps])
        child = np.concatenate([r for _, r in self._deps])
        place = np.minimum(np.searchsorted(ids, parent_ids, sorter=order), len(ids) - 1)
        parent = order[place]
        resolved = (ids[parent] == parent_ids) & (parent != child)
        return parent[resolved].astype(np.int64), child[resolved]


def _listed(column: pa.ChunkedArray) -> tuple[U64, I64]:
    """The entries of a column of lists, and the row of each."""
    lists = column.combine_chunks()
    ids = lists.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return ids, np.repeat(np.arange(len(lists), dtype=np.int64), counts)


Progress = Callable[[int], object]


def validate(
    traces: Trace | TraceSet | Source,
    *,
    keep: int | None = KEEP,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> ValidationReport:
    """Checks a trace, a set, or what is behind a path; files are read in pieces, in bounded memory.

    `keep` is how many findings of one code and rank are listed (None: all); `counts` is exact.
    `progress` is called with each piece read. With `workers`, each body is checked by one of them. Bytes
    that are not a trace are a finding; a path that is not there is a ChakraError.
    """
    findings = Findings(keep)
    job = bodies_to_check(traces, findings)
    checked = check(job, findings, progress or (lambda _piece: None), workers)
    return findings.report(checked.ranks, len(job.bodies))


@dataclass
class BodiesToCheck:
    """What is to be checked: bodies as pieces, and who runs them."""

    bodies: Sequence[Callable[[], Iterable[Trace]]]
    bindings: Mapping[int, Binding]
    groups: Groups = field(default_factory=Groups)
    ranks_known: bool = True
    """False for a trace that nothing names the rank of: what it communicates says it."""
    traces: TraceSet | None = None
    """The set they are of, where there is one: what its card and its times say."""

    @property
    def disagrees(self) -> bool:
        """Whether `link` has found that a recording contradicts itself, and has said so on the card."""
        recorded = recorded_step_of(self.traces.card) if self.traces is not None else None
        return recorded is not None and bool(recorded.disagreements)


@dataclass(frozen=True)
class Checked:
    """What a check leaves behind for repairs, for each body.

    `dangling` are ids that control dependencies name and no node has, `circular` (source, target) ids
    of control dependencies that close circles.
    """

    ranks: int
    dangling: list[U64]
    circular: list[U64]


def check(
    job: BodiesToCheck, findings: Findings, progress: Progress, workers: Workers | None = None
) -> Checked:
    """Checks every body, then the ranks against each other."""
    bodies = list(_bodies(job, findings.keep, progress, workers))
    groups = job.groups
    for body in bodies:
        groups = groups.merged(body.groups)
    bindings = job.bindings
    if not job.ranks_known:
        bindings = {own_rank(bodies[0].communication.calls, groups): Binding(0)}
    for body in bodies:
        findings.merge(body.findings if job.ranks_known else body.findings.of_rank(*bindings))
    if all(
        body.complete for body in bodies
    ):  # what was cut off would look like missing collectives
        communication = [b.communication for b in bodies]
        across = Findings(findings.keep)
        check_ranks(RanksToCheck(communication, bindings, groups, not job.ranks_known), across)
        findings.merge(across.softened("ranks-disagree") if job.disagrees else across)
        if isinstance(job.traces, Run):
            check_times(job.traces, [b.findings.nodes for b in bodies], findings)
    if job.traces is not None:
        _check_card(job.traces, findings)
    dangling, circular = [b.dangling for b in bodies], [b.circular for b in bodies]
    return Checked(len(job.bindings), dangling, circular)


def _check_card(traces: TraceSet, findings: Findings) -> None:
    try:
        carried_card(traces.card)
    except ConfigError as error:
        findings.add("workload-card", None, str(error))


def _bodies(
    job: BodiesToCheck, keep: int | None, progress: Progress, workers: Workers | None
) -> Iterator[_Body]:
    """Each body checked by itself, in order."""
    lowest: dict[int, int] = {}
    for rank, binding in job.bindings.items():
        lowest.setdefault(binding.body, rank)
    tasks = [(pieces, lowest.get(number)) for number, pieces in enumerate(job.bodies)]
    if workers is None or len(tasks) == 1:
        yield from (_check_body(task, keep, progress) for task in tasks)
        return
    for number, body in enumerate(spread(partial(_check_body, keep=keep), tasks, workers)):
        progress(number)
        yield body


@dataclass(frozen=True)
class _Body:
    """What is left of a body after its own check: small next to the body."""

    findings: Findings
    communication: BodyCommunication
    groups: Groups
    dangling: U64
    circular: U64
    complete: bool


def _check_body(
    task: tuple[Callable[[], Iterable[Trace]], int | None],
    keep: int | None,
    progress: Progress = lambda _piece: None,
) -> _Body:
    """All rules that need no other rank."""
    (pieces, rank), findings = task, Findings(keep)
    graph, reader, groups = GraphChecker(rank, findings), CommunicationReader(), Groups()
    plain = PlainReading()
    first, whole = True, True
    try:
        for number, piece in enumerate(pieces()):
            if first and piece.metadata.raw is None:
                findings.add(
                    "no-metadata", rank, "there is no GlobalMetadata before the first node"
                )
            if first:
                _check_header(piece, rank, findings)
            first = False
            check_nodes(piece, rank, findings)
            graph.add(piece)
            plain.add(piece)
            reader.add(piece)
            groups = groups.merged(_groups_of(piece))
            progress(number)
    except FormatError as error:
        findings.add("framing", rank, str(error), offset=error.offset)
        whole = False
    if whole:  # a reference to what was cut off is not another fault
        graph.finish()
        findings.plain(plain.finish())
        if not graph.spool.rows:
            findings.add("no-nodes", rank, "the trace has no nodes")
    findings.nodes += graph.spool.rows
    return _Body(
        findings, reader.finish(), groups, graph.dangling_control, graph.circular_control, whole
    )


def _check_header(piece: Trace, rank: int | None, findings: Findings) -> None:
    try:
        model_state(piece)
    except FormatError as error:
        findings.add("model-state", rank, str(error))


def _groups_of(piece: Trace) -> Groups:
    """Groups that the piece's own process-group nodes define."""
    rows = np.flatnonzero(piece.is_type(NodeType.METADATA_NODE))
    if not len(rows):
        return Groups()
    names = piece.names.take(rows).cast("string")
    rows = rows[pc.match_substring(names, "process_group:init").to_numpy()]
    return groups_in(Trace(piece.table.take(rows), piece.layouts)) if len(rows) else Groups()


# --- what is behind a path ------------------------------------------------------------------------


def bodies_to_check(traces: Trace | TraceSet | Source, findings: Findings) -> BodiesToCheck:
    """The bodies and ranks of a trace, a set, or the files behind a path."""
    if isinstance(traces, Trace):
        return BodiesToCheck([partial(pieces_of, traces)], {0: Binding(0)}, ranks_known=False)
    if isinstance(traces, TraceSet):
        bodies = [partial(_body_pieces, traces.reader_of(n)) for n in range(traces.body_count)]
        return BodiesToCheck(bodies, traces.bindings, traces.groups, traces=traces)
    return _bodies_behind(traces, findings)


def disagreements(traces: TraceSet) -> list[Finding]:
    """What the ranks of a set contradict each other in."""
    communication, groups = [], traces.groups
    for number in range(traces.body_count):
        reader = CommunicationReader()
        for piece in _body_pieces(traces.reader_of(number)):
            reader.add(piece)
            groups = groups.merged(_groups_of(piece))
        communication.append(reader.finish())
    findings = Findings(keep=3)
    check_ranks(RanksToCheck(communication, traces.bindings, groups), findings)
    return [f for f in findings.report(len(traces)).findings if f.severity == "error"]


def pieces_of(trace: Trace) -> Iterator[Trace]:
    """A trace in memory, in pieces that share its buffers."""
    if not len(trace):
        yield trace
    for at in range(0, len(trace), et.CHUNK_ROWS):
        yield Trace(trace.table.slice(at, et.CHUNK_ROWS), trace.layouts, trace.metadata)


def _body_pieces(body: Body) -> Iterator[Trace]:
    return pieces_of(body if isinstance(body, Trace) else body())


def _bodies_behind(path: Source, findings: Findings) -> BodiesToCheck:
    files = rank_files(path)
    bodies = [partial(scan_trace, f) for f in files.values()]
    if not isinstance(path, (str, os.PathLike)) or os.fspath(path) == STDIO:
        return BodiesToCheck(bodies, {0: Binding(0)}, ranks_known=False)
    plain = {rank: Binding(i) for i, rank in enumerate(files)}
    place = place_of(path)
    if isinstance(place, Path) and place.is_file():
        names_rank = named_rank(place) is not None
        return BodiesToCheck(bodies, plain, _groups_beside(place, findings), names_rank)
    try:
        traces = read(path)
    except FormatError as error:
        # A damaged trace shows up again when it is read; anything else is told here.
        if error.path not in {str(f) for f in files.values()}:
            findings.add("groups-file", None, str(error), offset=error.offset)
        return BodiesToCheck(bodies, plain)
    return BodiesToCheck(bodies, traces.bindings, traces.groups, traces=traces)


def _groups_beside(file: Path, findings: Findings) -> Groups:
    try:
        return groups_beside_file(file)
    except FormatError as error:
        findings.add("groups-file", None, str(error), offset=error.offset)
        return Groups()
