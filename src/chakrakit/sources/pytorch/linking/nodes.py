"""A linked rank as a Trace: columns by the vocabulary, with exact oneof members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64, Mask
from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.attribution import PHASES, read_batch
from chakrakit.sources.pytorch.calls import Collective
from chakrakit.sources.pytorch.graphs import Operator
from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.sources.pytorch.work import work_of_rows
from chakrakit.trace.model import Metadata, NodeType, Trace

# What captures and step annotations add to the nodes: operators of graph kernels, batches of steps.


Columns = dict[str, Any]


def add_graph_columns(linked: Rank, columns: Columns) -> None:
    """Say of every replayed row what its capture knows, and of every serving step what was in it."""
    _add_operators(linked, columns)
    _add_instructions(linked, columns)
    _add_batches(linked, columns)


def _add_operators(linked: Rank, columns: Columns) -> None:
    named = linked.graphs.operators
    if not named:
        return
    rows = list(named)
    said: dict[str, list[Any]] = {
        "operator": [named[r].name or None for r in rows],
        "inputs_shapes": [named[r].shapes or None for r in rows],
        "inputs_types": [named[r].types or None for r in rows],
        "operator_call": [_call(named[r]) for r in rows],
        "module": [named[r].module or None for r in rows],
        "layer": [named[r].layer if named[r].layer >= 0 else None for r in rows],
        "phase": [PHASES[named[r].phase] if named[r].phase >= 0 else None for r in rows],
        **_shared_work(linked, named),
    }
    for name, values in said.items():
        if any(v is not None for v in values):
            columns[name] = _overlaid(columns.get(name), len(linked.line), rows, values)


def _call(operator: Operator) -> str | None:
    """`[call, strides, values]`: what a replay needs to make the call again."""
    if operator.call < 0:
        return None
    return f"[{operator.call},{operator.strides or '[]'},{operator.values or '[]'}]"


_INSTRUCTION = {
    "hlo_op": "operator",
    "hlo_shapes": "inputs_shapes",
    "hlo_types": "inputs_types",
    "hlo_name": "module",
}


def _add_instructions(linked: Rank, columns: Columns) -> None:
    """What XLA says of its kernels: the instruction, its operands, and where in the program it is from."""
    said = linked.kineto.extras.column("hlo_op") if linked.kineto is not None else {}
    if linked.kineto is None or not said:
        return
    row_of = {int(e): row for row, e in enumerate(linked.line.event.tolist()) if e >= 0}
    for key, name in _INSTRUCTION.items():
        said = {row_of[e]: v for e, v in linked.kineto.extras.column(key).items() if e in row_of}
        if said:
            columns[name] = _overlaid(
                columns.get(name), len(linked.line), list(said), list(said.values())
            )


def _shared_work(linked: Rank, named: dict[int, Operator]) -> dict[str, list[Any]]:
    """An operator's FLOPs and bytes, once for each replay: at the longest of its rows."""
    longest: dict[tuple[int, int], int] = {}
    for replay in linked.graphs.replays:
        for row in replay.rows.tolist():
            if row in named and named[row].call >= 0:
                key = replay.call, named[row].call
                best = longest.get(key)
                if best is None or linked.line.duration[row] > linked.line.duration[best]:
                    longest[key] = row
    chosen = set(longest.values())
    return {
        "num_ops": [named[r].flops or None if r in chosen else None for r in named],
        "tensor_size": [named[r].moved or None if r in chosen else None for r in named],
    }


def _overlaid(column: Any, length: int, rows: list[int], values: list[Any]) -> pa.Array:
    """A column with these rows replaced where there is something to say."""
    plain: list[Any] = [None] * length if column is None else pa.array(column).to_pylist()
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            plain[row] = value
    found = pa.array(plain)
    return found.dictionary_encode() if pa.types.is_string(found.type) else found


def _add_batches(linked: Rank, columns: Columns) -> None:
    """Serving engines say in a step's name what was in its batch."""
    chosen = linked.names.where(lambda name: read_batch(name) is not None) & linked.line.is_host
    rows = np.flatnonzero(chosen).tolist()
    batches = [read_batch(linked.names[r]) for r in rows]
    facts = [b.columns() if b is not None else {} for b in batches]
    for name in dict.fromkeys(key for f in facts for key in f):
        columns[name] = _overlaid(None, len(linked.line), rows, [f.get(name) for f in facts])


def to_trace(linked: Rank, epoch: int) -> Trace:
    """All nodes of a rank with times counted from `epoch` (ns on the rank's own clock)."""
    columns: Columns = {
        **_times(linked, epoch),
        **_places(linked),
        **_operators(linked),
        **_attribution(linked),
        **_work(linked),
        **_types(linked),
    }
    add_graph_columns(linked, columns)
    return Trace.from_columns(columns, linked.edges, _metadata(linked))


def _times(linked: Rank, epoch: int) -> Columns:
    times = linked.times
    duration = times.end - times.start
    own = np.where(times.own != duration, times.own, -1)
    return {
        "name": linked.names.column(),
        "start_time_micros": ((times.start - epoch) // 1000).astype(np.uint64),
        "duration_micros": _whole_micros(times.own),
        "start_time_ns": times.start - epoch,
        "duration_ns": duration,
        "own_ns": _some(own, own >= 0),
    }


def time_columns(trace: Trace, start: I64, end: I64) -> Columns:
    """A linked trace's times moved: communication waits as long as it does, the host works as before."""
    duration = end - start
    waits = trace.own_ns == trace.duration_ns
    own = np.where(waits, duration, np.minimum(trace.own_ns, duration))
    return {
        "start_time_micros": (start // 1000).astype(np.uint64),
        "duration_micros": _whole_micros(own),
        "start_time_ns": start,
        "duration_ns": duration,
        "own_ns": _some(own, own != duration),
    }


def _whole_micros(nanos: I64) -> U64:
    """Rounded so that sums over many rows stay right: what is cut off one is given to a later one."""
    ends = np.cumsum(nanos) // 1000
    return np.diff(ends, prepend=0).astype(np.uint64)


def _some(values: NDArray[Any], valid: Mask) -> pa.Array:
    return pa.array(values, mask=~valid)


def _places(linked: Rank) -> Columns:
    line = linked.line
    tids = np.array([name[1] for name in line.thread_names] or [0], np.int64)
    streams = np.array([name[1] for name in line.lane_names] or [0], np.int64)
    devices = np.array([name[0] for name in line.lane_names] or [0], np.int64)
    host, device = line.is_host, line.lane >= 0
    out: Columns = {
        "is_cpu_op": host,
        "tid": _some(tids[line.thread], host),
        "stream": _some(streams[line.lane], device),
        "device": _some(devices[line.lane], device),
        "parent": _some(line.parent, host & (line.parent >= 0)),
    }
    orphan = np.zeros(len(line), np.bool_)
    orphan[linked.device.orphans] = True
    if orphan.any():
        out["orphan"] = _some(orphan, orphan)
    return out


def _operators(linked: Rank) -> Columns:
    if linked.observer is None:
        return _kineto_arguments(linked)
    line, seen = linked.line, linked.observer
    known = line.operator >= 0
    index = pa.array(line.operator, mask=~known)
    at = np.maximum(line.operator, 0)
    if not len(seen):
        return {}
    out: Columns = {
        name: _some(getattr(seen, name)[at], known)
        for name in ("rf_id", "fw_parent", "seq_id", "scope")
    }
    out["fw_tid"] = _some(_os_threads(linked, at), known & (seen.fw_tid[at] > 0))
    for name in ("op_schema", "kernel_backend", "kernel_file", "tensor_range"):
        numbers = getattr(seen, name)[at]
        out[name] = seen.texts.column(numbers, known & (numbers > 0))
    for side, short in (("inputs", "in"), ("outputs", "out")):
        values = seen.in_values if side == "inputs" else seen.out_values
        out[f"{side}_values"] = values.take(index).cast(pa.string())
        for what in ("shapes", "types", "strides"):
            out[f"{side}_{what}"] = seen.texts.column(
                seen.text_columns[f"{short}_{what}"][at], known
            )
    return out


def _os_threads(linked: Rank, operators: I64) -> I64:
    """The operating system's number for the forward thread, which PyTorch numbers in its own way."""
    line, seen = linked.line, linked.observer
    assert seen is not None
    tids = np.array([name[1] for name in line.thread_names] or [0], np.int64)
    paired = (line.operator >= 0) & (line.event >= 0)
    small, known = seen.tid[line.operator[paired]], tids[line.thread[paired]]
    numbers, last = np.unique(small[::-1], return_index=True)  # the last operator decides
    wanted = seen.fw_tid[operators]
    place = np.searchsorted(numbers, wanted)
    found = np.minimum(place, len(numbers) - 1)
    if not len(numbers):
        return wanted
    return np.where(numbers[found] == wanted, known[::-1][last][found], wanted)


def _kineto_arguments(linked: Rank) -> Columns:
    seen = linked.kineto
    if seen is None or not len(seen):
        return {}
    line = linked.line
    known = (line.event >= 0) & line.is_host
    at = np.maximum(line.event, 0)
    named = {
        "shapes": "in_dims",
        "types": "in_types",
        "strides": "in_strides",
        "values": "in_values",
    }
    out: Columns = {}
    for what, column in named.items():
        numbers = seen.text_columns[column][at]
        out[f"inputs_{what}"] = seen.texts.column(numbers, known & (numbers > 0))
    return out


def _attribution(linked: Rank) -> Columns:
    found = linked.attribution
    out: Columns = {"step": _some(found.step, found.step >= 0)}
    phases = pa.array(found.phase.astype(np.int32), mask=found.phase < 0)
    out["phase"] = pa.DictionaryArray.from_arrays(phases, pa.array(PHASES))
    if found.modules:
        modules = pa.array(found.module.astype(np.int32), mask=found.module < 0)
        out["module"] = pa.DictionaryArray.from_arrays(modules, pa.array(found.modules))
    if (found.layer >= 0).any():
        out["layer"] = _some(found.layer, found.layer >= 0)
    return out


def _work(linked: Rank) -> Columns:
    count, moved = work_of_rows(linked.line, linked.names, linked.observer, linked.kineto)
    device = np.flatnonzero(linked.line.lane >= 0)
    if linked.kineto is not None:
        copied = linked.kineto.bytes[linked.line.event[device]]
        moved[device] = np.where(copied > 0, copied, moved[device])
    return {"num_ops": _some(count, count > 0), "tensor_size": _some(moved, moved > 0)}


_TYPES = {words.SEND: NodeType.COMM_SEND_NODE, words.RECV: NodeType.COMM_RECV_NODE}


def _types(linked: Rank) -> Columns:
    kind = np.full(len(linked.line), NodeType.COMP_NODE, np.int32)
    for c in linked.collectives:
        kind[c.row] = _TYPES.get(c.kind, NodeType.COMM_COLL_NODE)
    return {"type": kind}


def communication_columns(length: int, me: int, found: list[Collective]) -> Columns:
    """What is said of communication, once groups and sequence numbers are settled."""
    facts: dict[str, dict[int, Any]] = {
        "comm_type": {c.row: c.kind for c in found if c.kind >= 0},
        "comm_name": {c.row: c.raw for c in found if c.kind == words.UNKNOWN},
        "comm_size": {c.row: max(c.in_bytes, 0) for c in found},
        "out_size": {c.row: c.out_bytes for c in found if c.out_bytes >= 0},
        "comm_dtype": {c.row: c.dtype for c in found if c.dtype},
        "pg_name": {c.row: c.group for c in found if c.group is not None},
        "pg_inferred": {c.row: True for c in found if c.inferred},
        "comm_seq": {c.row: c.sequence for c in found if c.sequence >= 0},
        "in_splits": {c.row: c.in_splits for c in found if c.in_splits},
        "out_splits": {c.row: c.out_splits for c in found if c.out_splits},
        "comm_src": {c.row: c.peer if c.kind == words.RECV else me for c in found if c.is_message},
        "comm_dst": {c.row: c.peer if c.kind == words.SEND else me for c in found if c.is_message},
        "comm_tag": {c.row: c.tag for c in found if c.is_message},
    }
    return {name: _sparse(length, rows) for name, rows in facts.items() if rows}


def _sparse(length: int, rows: dict[int, Any]) -> pa.Array:
    where = np.full(length, -1, np.int64)
    where[list(rows)] = np.arange(len(rows))
    return pa.array(list(rows.values())).take(pa.array(where, mask=where < 0))


def _metadata(linked: Rank) -> Metadata:
    said: dict[str, str | int | float | bool] = {"rank": linked.rank}
    if linked.observer is not None:
        said |= {"schema": linked.observer.schema, "pid": linked.observer.pid}
    return Metadata.of("1.0.0", **said)
