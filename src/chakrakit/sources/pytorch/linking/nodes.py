"""A linked rank as a Trace: one column per attribute, in the types that the schema asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, U64, Mask
from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.attribution import PHASES, read_batch
from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.graphs import CapturedOperator
from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.sources.pytorch.work import work_of_rows
from chakrakit.trace.model import GENERATED_CODE, Metadata, NodeType, Trace

Columns = dict[str, Any]


def add_graph_columns(linked: Rank, columns: Columns) -> None:
    """Add operators of replayed graphs, XLA's instructions, and batches of serving steps."""
    _add_operators(linked, columns)
    _add_instructions(linked, columns)
    _add_batches(linked, columns)


def _add_operators(linked: Rank, columns: Columns) -> None:
    operators = linked.graphs.operators
    if not operators:
        return
    rows = list(operators)
    captured: dict[str, list[Any]] = {
        "operator": [operators[r].name or None for r in rows],
        "inputs_shapes": [operators[r].shapes or None for r in rows],
        "inputs_types": [operators[r].types or None for r in rows],
        "operator_call": [_call(operators[r]) for r in rows],
        "module": [operators[r].module or None for r in rows],
        "layer": [operators[r].layer if operators[r].layer >= 0 else None for r in rows],
        "phase": [PHASES[operators[r].phase] if operators[r].phase >= 0 else None for r in rows],
        **_shared_work(linked, operators),
    }
    for name, values in captured.items():
        if any(v is not None for v in values):
            columns[name] = _overlaid(columns.get(name), len(linked.line), rows, values)


def _call(operator: CapturedOperator) -> str | None:
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
    """Add XLA's facts about its kernels: the instruction, its operands, and its place in the program."""
    by_row = linked.kineto.extras.column("hlo_op") if linked.kineto is not None else {}
    if linked.kineto is None or not by_row:
        return
    row_of = {int(e): row for row, e in enumerate(linked.line.event.tolist()) if e >= 0}
    for key, name in _INSTRUCTION.items():
        by_row = {row_of[e]: v for e, v in linked.kineto.extras.column(key).items() if e in row_of}
        if by_row:
            columns[name] = _overlaid(
                columns.get(name), len(linked.line), list(by_row), list(by_row.values())
            )


def _shared_work(linked: Rank, operators: dict[int, CapturedOperator]) -> dict[str, list[Any]]:
    """An operator's FLOPs and bytes, once for each replay: at the longest of its rows."""
    longest: dict[tuple[int, int], int] = {}
    for replay in linked.graphs.replays:
        for row in replay.rows.tolist():
            if row in operators and operators[row].call >= 0:
                key = replay.call, operators[row].call
                best = longest.get(key)
                if best is None or linked.line.duration[row] > linked.line.duration[best]:
                    longest[key] = row
    carriers = set(longest.values())
    return {
        "num_ops": [operators[r].flops or None if r in carriers else None for r in operators],
        "tensor_size": [operators[r].moved or None if r in carriers else None for r in operators],
    }


def _overlaid(column: Any, length: int, rows: list[int], values: list[Any]) -> pa.Array:
    """A column with these rows replaced, except by None."""
    plain: list[Any] = [None] * length if column is None else pa.array(column).to_pylist()
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            plain[row] = value
    overlaid = pa.array(plain)
    return overlaid.dictionary_encode() if pa.types.is_string(overlaid.type) else overlaid


def _add_batches(linked: Rank, columns: Columns) -> None:
    """Add the batches that serving engines describe in the names of their steps."""
    is_step = linked.names.where(lambda name: read_batch(name) is not None) & linked.line.is_host
    rows = np.flatnonzero(is_step).tolist()
    batches = [read_batch(linked.names[r]) for r in rows]
    facts = [b.columns() if b is not None else {} for b in batches]
    for name in dict.fromkeys(key for f in facts for key in f):
        columns[name] = _overlaid(None, len(linked.line), rows, [f.get(name) for f in facts])


def to_trace(linked: Rank, epoch: int, generated: Mapping[str, Any] | None = None) -> Trace:
    """All nodes of a rank with times counted from `epoch` (ns on the rank's own clock).

    `generated` is the code of kernels that a compiler wrote, by the file that the observer names.
    """
    columns: Columns = {
        **_times(linked, epoch),
        **_places(linked),
        **_operators(linked),
        **_attribution(linked),
        **_work(linked),
        **_types(linked),
        **_grids(linked),
    }
    add_graph_columns(linked, columns)
    return Trace.from_columns(columns, linked.edges, _metadata(linked, generated or {}))


def _times(linked: Rank, epoch: int) -> Columns:
    times = linked.times
    duration = times.end - times.start
    own_ns = np.where(times.own_ns != duration, times.own_ns, -1)
    return {
        "name": linked.names.column(),
        "start_time_micros": ((times.start - epoch) // 1000).astype(np.uint64),
        "duration_micros": _whole_micros(times.own_ns),
        "start_time_ns": times.start - epoch,
        "duration_ns": duration,
        "own_ns": _some(own_ns, own_ns >= 0),
    }


def time_columns(trace: Trace, start: I64, end: I64) -> Columns:
    """Time columns for new starts and ends; own times of the host do not grow with them."""
    duration = end - start
    waits = trace.own_ns == trace.duration_ns
    own_ns = np.where(waits, duration, np.minimum(trace.own_ns, duration))
    return {
        "start_time_micros": (start // 1000).astype(np.uint64),
        "duration_micros": _whole_micros(own_ns),
        "start_time_ns": start,
        "duration_ns": duration,
        "own_ns": _some(own_ns, own_ns != duration),
    }


def _whole_micros(nanos: I64) -> U64:
    """Microseconds, rounded so that sums stay right: what one row loses a later one gets."""
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
    line, observer = linked.line, linked.observer
    observed = line.operator >= 0
    index = pa.array(line.operator, mask=~observed)
    at = np.maximum(line.operator, 0)
    if not len(observer):
        return {}
    out: Columns = {
        name: _some(getattr(observer, name)[at], observed)
        for name in ("rf_id", "fw_parent", "seq_id", "scope")
    }
    out["fw_tid"] = _some(_os_threads(linked, at), observed & (observer.fw_tid[at] > 0))
    for name in ("op_schema", "kernel_backend", "kernel_file", "tensor_range"):
        numbers = getattr(observer, name)[at]
        out[name] = observer.texts.column(numbers, observed & (numbers > 0))
    for side, short in (("inputs", "in"), ("outputs", "out")):
        values = observer.in_values if side == "inputs" else observer.out_values
        out[f"{side}_values"] = values.take(index).cast(pa.string())
        for aspect in ("shapes", "types", "strides"):
            out[f"{side}_{aspect}"] = observer.texts.column(
                observer.text_columns[f"{short}_{aspect}"][at], observed
            )
    return out


def _os_threads(linked: Rank, operators: I64) -> I64:
    """The operating system's number for the forward thread, which PyTorch numbers in its own way."""
    line, observer = linked.line, linked.observer
    assert observer is not None
    tids = np.array([name[1] for name in line.thread_names] or [0], np.int64)
    paired = (line.operator >= 0) & (line.event >= 0)
    small, os_tid = observer.tid[line.operator[paired]], tids[line.thread[paired]]
    numbers, last = np.unique(small[::-1], return_index=True)  # the last operator decides
    forward = observer.fw_tid[operators]
    place = np.searchsorted(numbers, forward)
    nearest = np.minimum(place, len(numbers) - 1)
    if not len(numbers):
        return forward
    return np.where(numbers[nearest] == forward, os_tid[::-1][last][nearest], forward)


def _kineto_arguments(linked: Rank) -> Columns:
    kineto = linked.kineto
    if kineto is None or not len(kineto):
        return {}
    line = linked.line
    timed = (line.event >= 0) & line.is_host
    at = np.maximum(line.event, 0)
    columns = {
        "shapes": "in_dims",
        "types": "in_types",
        "strides": "in_strides",
        "values": "in_values",
    }
    out: Columns = {}
    for aspect, column in columns.items():
        numbers = kineto.text_columns[column][at]
        out[f"inputs_{aspect}"] = kineto.texts.column(numbers, timed & (numbers > 0))
    return out


def _attribution(linked: Rank) -> Columns:
    attribution = linked.attribution
    out: Columns = {"step": _some(attribution.step, attribution.step >= 0)}
    phases = pa.array(attribution.phase.astype(np.int32), mask=attribution.phase < 0)
    out["phase"] = pa.DictionaryArray.from_arrays(phases, pa.array(PHASES))
    if attribution.modules:
        modules = pa.array(attribution.module.astype(np.int32), mask=attribution.module < 0)
        out["module"] = pa.DictionaryArray.from_arrays(modules, pa.array(attribution.modules))
    if (attribution.layer >= 0).any():
        out["layer"] = _some(attribution.layer, attribution.layer >= 0)
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


def communication_columns(length: int, me: int, collectives: list[RecordedCollective]) -> Columns:
    """Columns of communication, once groups and sequence numbers are settled."""
    facts: dict[str, dict[int, Any]] = {
        "comm_type": {c.row: c.kind for c in collectives if c.kind >= 0},
        "comm_name": {c.row: c.raw for c in collectives if c.kind == words.UNKNOWN},
        "comm_size": {c.row: max(c.in_bytes, 0) for c in collectives},
        "out_size": {c.row: c.out_bytes for c in collectives if c.out_bytes >= 0},
        "comm_dtype": {c.row: c.dtype for c in collectives if c.dtype},
        "pg_name": {c.row: c.group for c in collectives if c.group is not None},
        "pg_inferred": {c.row: True for c in collectives if c.inferred},
        "comm_seq": {c.row: c.sequence for c in collectives if c.sequence >= 0},
        "in_splits": {c.row: c.in_splits for c in collectives if c.in_splits},
        "out_splits": {c.row: c.out_splits for c in collectives if c.out_splits},
        "comm_src": _ends(me, collectives, words.RECV),
        "comm_dst": _ends(me, collectives, words.SEND),
        "comm_tag": {c.row: c.tag for c in collectives if c.is_message},
    }
    return {name: _sparse(length, rows) for name, rows in facts.items() if rows}


def _ends(me: int, collectives: list[RecordedCollective], far: int) -> dict[int, int]:
    """By row, one end of each message: the peer of those of the kind `far`, if recorded; else `me`."""
    ends = {c.row: c.peer if c.kind == far else me for c in collectives if c.is_message}
    return {row: rank for row, rank in ends.items() if rank >= 0}


def _sparse(length: int, rows: dict[int, Any]) -> pa.Array:
    where = np.full(length, -1, np.int64)
    where[list(rows)] = np.arange(len(rows))
    return pa.array(list(rows.values())).take(pa.array(where, mask=where < 0))


def _grids(linked: Rank) -> Columns:
    """Blocks of every launch of a kernel that Triton compiled, which a replay needs to launch it again."""
    observer, kineto, line = linked.observer, linked.kineto, linked.line
    if observer is None or kineto is None or not len(observer):
        return {}
    compiled = observer.texts.where(lambda s: s == "triton")[observer.kernel_backend]
    rows = np.flatnonzero((line.operator >= 0) & compiled[np.maximum(line.operator, 0)])
    names = {linked.names[row] for row in rows.tolist()}
    if not names:
        return {}
    launched = linked.names.where(lambda name: name in names) & (line.lane >= 0) & (line.event >= 0)
    numbers = kineto.text_columns["grid"][np.maximum(line.event, 0)]
    return {"grid": kineto.texts.column(numbers, launched & (numbers > 0))}


def _metadata(linked: Rank, generated: Mapping[str, Any]) -> Metadata:
    attributes: dict[str, str | int | float | bool] = {"rank": linked.rank}
    if linked.observer is not None:
        attributes |= {"schema": linked.observer.schema, "pid": linked.observer.pid}
    if linked.observer is not None and generated:
        files = linked.observer.texts.strings
        named = {Path(text).stem for text in files if text.endswith(".py")}
        kept = {stem: code for stem, code in generated.items() if stem in named}
        attributes |= {GENERATED_CODE: msgspec.json.encode(kept).decode()} if kept else {}
    return Metadata.of("1.0.0", **attributes)
