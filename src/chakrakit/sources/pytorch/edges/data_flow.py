"""Data edges: from the operator that wrote a tensor to those that read it, and from forward to backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.operators import PARAMETERS, Work, is_device_record, is_record, operator_of
from chakrakit.sources.pytorch.edges.candidates import TOLERANCE_NS, EdgeList
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames, nearest
from chakrakit.sources.pytorch.work import innermost, touches_memory
from chakrakit.trace.model import EdgeForm, EdgeKind


@dataclass(frozen=True)
class Actors:
    """Which rows do an operator's work: the first and last thing it launched, or else itself."""

    first: I64
    last: I64
    launched: Mask


def actors(line: Timeline) -> Actors:
    """For every row, the rows that stand for it at either end of a tensor edge."""
    operators = (line.kind == Kind.OPERATOR) | (line.kind == Kind.ANNOTATION)
    owner = nearest(line, operators & line.is_host)
    first, last = np.arange(len(line)), np.arange(len(line))
    device = np.flatnonzero((line.lane >= 0) & (owner >= 0))
    by_end = device[np.argsort(line.end[device], kind="stable")]
    first[owner[device[::-1]]] = device[::-1]
    last[owner[by_end]] = by_end
    return Actors(first, last, first != np.arange(len(line)))


def tensor_edges(
    line: Timeline, names: TimelineNames, observer: Observer, comm_rows: Mask
) -> tuple[EdgeList, int]:
    """Edges from the last writer of a storage to its next readers, and how many time refuted.

    Ids are addresses and come back after they are freed; a storage therefore counts from one write
    to the next, and an allocation begins it anew without being waited for. On a device only what
    launched something can have written; views, which share the storage, are passed through.
    """
    acting = actors(line)
    # A device's library that launched nothing (a group of one) did nothing: its host call waits for
    # no kernel. A host's library reads device tensors itself, and waits.
    comm_rows = comm_rows & (acting.launched | ~names.where(_is_device_library))
    working = innermost(line, names) | comm_rows
    allocates = names.where(lambda name: operator_of(name).work is Work.ALLOCATION)
    touches = working & (names.where(touches_memory) | allocates)
    pairs = [
        _writes_and_reads(line, observer, row_of, acting, touches, comm_rows, allocates)
        for row_of in _instances(line, len(observer))
    ]
    source, target = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return _checked_edges(line, acting.last[source], acting.first[target])


def _is_device_library(name: str) -> bool:
    """Whether a name is that of a host record of communication that kernels do."""
    return name == PARAMETERS or (is_record(name) and is_device_record(name))


def _instances(line: Timeline, operators: int) -> list[I64]:
    """Operator → row, once for every time the recorded operators were run."""
    observed = np.flatnonzero(line.operator >= 0)
    order = observed[np.argsort(line.operator[observed], kind="stable")]
    number = line.operator[order]
    place = np.arange(len(order))
    fresh = np.r_[True, number[1:] != number[:-1]] if len(order) else place == 0
    nth = place - np.maximum.accumulate(np.where(fresh, place, 0)) if len(order) else place
    out = []
    for n in range(int(nth.max(initial=-1)) + 1):
        rows = np.full(operators, -1, np.int64)
        rows[number[nth == n]] = order[nth == n]
        out.append(rows)
    return out or [np.full(operators, -1, np.int64)]


def _writes_and_reads(
    line: Timeline,
    observer: Observer,
    row_of: I64,
    acting: Actors,
    touches: Mask,
    comm_rows: Mask,
    allocates: Mask,
) -> tuple[I64, I64]:
    table = observer.tensors
    row = row_of[table.node]
    usable = (row >= 0) & touches[row]
    row, storage, node = row[usable], table.storage[usable], table.node[usable]
    on_host = observer.texts.where(lambda s: s.startswith("cpu"))[table.device[usable]]
    works = on_host | acting.launched[row] | comm_rows[row]
    # Triton lists results among its arguments, so all it is given may be written.
    triton = observer.texts.where(lambda s: s == "triton")[observer.kernel_backend[node]]
    writes = table.is_output[usable] | triton
    # What an operator allocates inside itself comes after its reads and before its writes.
    when = np.where(writes, line.end[row], line.start[row])
    return _last_writes(row, storage, writes, works, allocates[row], when)


def _last_writes(
    row: I64, storage: I64, writes: Mask, works: Mask, allocates: Mask, when: I64
) -> tuple[I64, I64]:
    """(writer, reader) rows; a reader sees the last write to its storage before it."""
    marks = writes & (works | allocates)
    reads = ~writes & works
    keep = marks | reads
    order = np.flatnonzero(keep)
    order = order[np.lexsort((row[keep], marks[keep], when[keep], storage[keep]))]
    row, storage, marks, allocates = row[order], storage[order], marks[order], allocates[order]
    place = np.arange(len(row))
    begin = np.maximum.accumulate(np.where(np.r_[True, storage[1:] != storage[:-1]], place, 0))
    last = np.maximum.accumulate(np.where(marks, place, -1))
    has_writer = ~marks & (last >= begin)
    has_writer[has_writer] &= ~allocates[last[has_writer]] & (
        row[last[has_writer]] != row[has_writer]
    )
    return row[last[has_writer]], row[has_writer]


def _checked_edges(line: Timeline, source: I64, target: I64) -> tuple[EdgeList, int]:
    pairs = np.unique(np.stack([source, target], axis=1), axis=0)
    source, target = pairs[:, 0], pairs[:, 1]
    sound = (line.end[source] <= line.start[target] + TOLERANCE_NS) & (source != target)
    # A lag below 0 only within the clocks' disagreement, so that no edge contradicts the times.
    lag = np.minimum(line.start[target] - line.end[source], 0)[sound]
    out = EdgeList()
    out.add(EdgeKind.TENSOR, source[sound], target[sound], lag, EdgeForm.FINISH_START)
    return out, int((~sound).sum())


def autograd_edges(line: Timeline, kineto: Kineto | None, observer: Observer | None) -> EdgeList:
    """Forward operators to their backward ones, by Kineto's arrows or else by sequence number."""
    out = EdgeList()
    source, target = _by_arrows(line, kineto) if kineto is not None else _none()
    if not len(source) and observer is not None:
        source, target = _by_sequence(line, observer)
    sound = line.end[source] <= line.start[target]
    out.add(EdgeKind.AUTOGRAD, source[sound], target[sound], 0, EdgeForm.FINISH_START)
    return out


def _none() -> tuple[I64, I64]:
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _by_arrows(line: Timeline, kineto: Kineto) -> tuple[I64, I64]:
    flows = kineto.flows
    source = _rows_at(line, flows.forward_tid, flows.forward_ts)
    target = _rows_at(line, flows.backward_tid, flows.backward_ts)
    both = (source >= 0) & (target >= 0) & (source != target)
    return source[both], target[both]


def _rows_at(line: Timeline, tid: I64, when: I64) -> I64:
    """The outermost operator of a thread that started exactly then; -1 for none."""
    number = {name[1]: i for i, name in enumerate(line.thread_names)}
    thread = np.array([number.get(int(t), -1) for t in tid], np.int64)
    rows = np.flatnonzero((line.kind == Kind.OPERATOR) & line.is_host)
    if not len(rows) or not len(thread):
        return np.full(len(thread), -1, np.int64)
    order = np.lexsort((rows, line.start[rows], line.thread[rows]))
    rows = rows[order]
    base = int(line.start[rows].min())
    width = int(line.start[rows].max()) - base + 2
    keys = line.thread[rows].astype(np.int64) * width + (line.start[rows] - base)
    sought = thread * width + np.clip(when - base, -1, width - 1)
    place = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    return np.where((keys[place] == sought) & (thread >= 0), rows[place], -1)


def _by_sequence(line: Timeline, observer: Observer) -> tuple[I64, I64]:
    rows = np.flatnonzero(line.operator >= 0)
    seq, scope = observer.seq_id[line.operator[rows]], observer.scope[line.operator[rows]]
    forward = rows[(seq >= 0) & (scope == 0)]
    backward = rows[(seq >= 0) & (scope == 1)]
    numbers, last = np.unique(observer.seq_id[line.operator[forward]][::-1], return_index=True)
    if not len(numbers):
        return _none()
    forward = forward[::-1][last]
    sought = observer.seq_id[line.operator[backward]]
    place = np.minimum(np.searchsorted(numbers, sought), len(numbers) - 1)
    hit = (numbers[place] == sought) & (forward[place] != backward)
    return forward[place[hit]], backward[hit]
