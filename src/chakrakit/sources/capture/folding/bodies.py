"""A recording as a Trace: its nodes, the streams they run on, and edges from storages, waits and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.sources.capture.recording import FIRST_STREAM, PHASES, CapturedRank, CommCall
from chakrakit.sources.pytorch import layer_of
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.memory import HELD_KIND
from chakrakit.trace.model import CollectiveType, EdgeKind, Edges, Metadata, NodeType, Trace
from chakrakit.trace.sets import CAPTURED_VERSION

# Streams and events as on a GPU. Compute runs on the streams that the program issues it on. Each process
# group's collectives run on another and begin when what was issued before them on the program's stream is
# done; that stream goes on unless an operator waits. Gathers into one tensor, which FSDP issues on a stream
# of its own, do not queue behind the group's other collectives.
COMPUTE = 0
"""The stream that programs begin with."""


@dataclass(eq=False)
class CapturedStreams:
    """`stream` by operator, -1 on the host; `events` are pairs of operators that must run in this order."""

    stream: I64
    events: list[tuple[int, int]] = field(default_factory=list)


def streams_of(recording: CapturedRank) -> CapturedStreams:
    """The stream of every operator, and the waits that neither data nor the order on a stream imply."""
    out = CapturedStreams(np.full(len(recording.ops), -1, np.int64))
    lanes: dict[tuple[object, ...], int] = {("program", FIRST_STREAM): COMPUTE}
    last: dict[int, int] = {}
    awaited: dict[int, list[int]] = {}
    done = np.full(len(recording.ops), -1, np.int64)
    """By operator: the last one of the device on its stream, itself included."""
    for i, op in enumerate(recording.ops):
        waiting = awaited.setdefault(op.stream, [])
        waiting += [int(done[j]) for j in op.after if done[j] >= 0]
        if op.comm >= 0:
            lane = _lane(recording, i)
            before = [*waiting, last.get(op.stream, -1)]
            out.events += [(j, i) for j in before if j >= 0]
        elif _on_host(recording, op.signature, op.is_host, op.waits_for):
            done[i] = last.get(op.stream, -1)
            continue
        else:
            lane = ("program", op.stream)
            out.events += [(j, i) for j in waiting]
            waiting.clear()
            last[op.stream] = i
        out.stream[i] = lanes.setdefault(lane, len(lanes))
        done[i] = last.get(op.stream, -1)
        if op.waits_for >= 0:
            out.events.append((op.waits_for, i))
    return out


def _lane(recording: CapturedRank, place: int) -> tuple[object, ...]:
    """What runs one after the other: a group's collectives, and messages one way between two ranks."""
    op = recording.ops[place]
    comm, name = recording.comms[op.comm], recording.signatures[op.signature].name
    if comm.kind in (words.SEND, words.RECV):
        return comm.group, comm.kind, comm.peer
    gathers = comm.kind == CollectiveType.ALL_GATHER and name.startswith("c10d::_allgather")
    return comm.group, gathers


def _on_host(recording: CapturedRank, signature: int, is_host: bool, waits_for: int) -> bool:
    return waits_for < 0 and (is_host or recording.signatures[signature].is_host)


_OPTIMIZER = PHASES.index("optimizer")


def trace_of(
    recording: CapturedRank, role_of: Mapping[str, str], rank_of: Callable[[CommCall], int]
) -> Trace:
    """The recording's Trace, in which groups are named by role and peers by rank."""
    ops = recording.ops
    plan = streams_of(recording)
    used = np.array([op.signature for op in ops], np.int64)
    host = plan.stream < 0
    comm = np.array([op.comm for op in ops], np.int64) >= 0
    data: dict[str, Any] = {
        "name": _texts([s.name for s in recording.signatures], used),
        "type": np.array([_type(recording, op.comm) for op in ops], np.int32),
        "is_cpu_op": host,
        "stream": _some(plan.stream, ~host),
        "step": np.array([op.step for op in ops], np.int64),
        "phase": _texts(PHASES, np.array([op.phase for op in ops], np.int64)),
        **_arguments(recording, used),
        **_work(recording, used, comm | host),
        **_modules(recording),
        **_communication(recording, role_of, rank_of),
        **_memory(recording),
    }
    micro = np.array([op.micro_batch for op in ops], np.int64)
    if (micro >= 0).any():
        data["micro_batch"] = _some(micro, micro >= 0)
    # Weights, gradients and states of optimizers are in the nodes' bytes too, and not told apart.
    header = Metadata.of(CAPTURED_VERSION, **{HELD_KIND: "other"})
    return Trace.from_columns(data, _edges(recording, plan.events, host), header)


def _type(recording: CapturedRank, comm: int) -> int:
    if comm < 0:
        return int(NodeType.COMP_NODE)
    kind = recording.comms[comm].kind
    if kind == words.SEND:
        return int(NodeType.COMM_SEND_NODE)
    return int(NodeType.COMM_RECV_NODE if kind == words.RECV else NodeType.COMM_COLL_NODE)


def _some(values: Any, mask: Mask) -> pa.Array:
    return pa.array(values, mask=~mask)


def _texts(texts: Sequence[str], codes: Any, mask: Mask | None = None) -> pa.Array:
    index = pa.array(np.asarray(codes, np.int32), mask=None if mask is None else ~mask)
    return pa.DictionaryArray.from_arrays(index, pa.array(list(texts), pa.string()))


def _arguments(recording: CapturedRank, used: Any) -> dict[str, Any]:
    names = [
        f"{side}_{aspect}"
        for side in ("inputs", "outputs")
        for aspect in ("shapes", "types", "strides")
    ]
    return {
        name: _texts([str(getattr(s, name)) for s in recording.signatures], used)
        for name in (*names, "inputs_values")
    }


def _work(recording: CapturedRank, used: Any, without: Mask) -> dict[str, Any]:
    flops = np.array([s.flops + s.vector_ops for s in recording.signatures], np.int64)[used]
    moved = np.array([s.moved for s in recording.signatures], np.int64)[used]
    kinds = [s.op_type for s in recording.signatures]
    codes = np.where(
        np.array([op.phase == _OPTIMIZER for op in recording.ops], np.bool_), len(kinds), used
    )
    return {
        "num_ops": _some(flops, ~without),
        "tensor_size": _some(moved, ~without),
        "dtype": _texts([s.dtype for s in recording.signatures], used, ~without),
        "op_type": _texts([*kinds, "optimizer"], codes, ~without),
        **_fused(recording, used),
    }


def _fused(recording: CapturedRank, used: Any) -> dict[str, Any]:
    """What a compiler put into each kernel, where something is compiled."""
    inside = [s.operators for s in recording.signatures]
    has = np.array([bool(text) for text in inside], np.bool_)[used]
    return {"fused_operators": _texts(inside, used, has)} if has.any() else {}


def _modules(recording: CapturedRank) -> dict[str, Any]:
    used = np.array([op.module for op in recording.ops], np.int64)
    layers = np.array([layer_of(m) for m in recording.modules], np.int64)[used]
    return {
        "module": _texts(recording.modules, used, used > 0),
        "layer": _some(layers, layers >= 0),
    }


def _communication(
    recording: CapturedRank, role_of: Mapping[str, str], rank_of: Callable[[CommCall], int]
) -> dict[str, Any]:
    rows = [op.comm for op in recording.ops]
    talks = np.array([r >= 0 for r in rows], np.bool_)
    if not talks.any():
        return {}

    def column(of: Callable[[CommCall], Any], kind: pa.DataType) -> pa.Array:
        of_comm = [of(c) for c in recording.comms]
        return pa.array([of_comm[r] if r >= 0 else None for r in rows], kind)

    i64, i32, text = pa.int64(), pa.int32(), pa.string()
    mine = recording.rank
    out = {
        "comm_type": column(lambda c: c.kind if c.kind >= 0 else None, i64),
        "comm_size": column(lambda c: c.in_bytes, i64),
        "out_size": column(lambda c: c.out_bytes if c.kind >= 0 else None, i64),
        "comm_dtype": column(lambda c: c.dtype, text),
        "pg_name": column(lambda c: role_of.get(c.group, c.group) if c.kind >= 0 else None, text),
        "comm_src": column(lambda c: mine if c.kind == words.SEND else _or_none(rank_of(c)), i32),
        "comm_dst": column(
            lambda c: (
                mine
                if c.kind == words.RECV
                else _or_none(rank_of(c))
                if c.kind == words.SEND
                else None
            ),
            i32,
        ),
        "comm_tag": column(lambda c: c.tag if c.kind < 0 else None, i32),
        "in_splits": column(lambda c: c.in_splits or None, pa.list_(i64)),
        "out_splits": column(lambda c: c.out_splits or None, pa.list_(i64)),
    }
    return {name: values for name, values in out.items() if values.null_count < len(values)}


def _or_none(rank: int) -> int | None:
    return None if rank < 0 else rank


def _memory(recording: CapturedRank) -> dict[str, Any]:
    """Bytes allocated and freed by node; the first one also allocates what was held when the step began."""
    alloc = np.array([op.alloc for op in recording.ops], np.int64)
    free = np.array([op.free for op in recording.ops], np.int64)
    if len(alloc):
        alloc[0] += recording.start_bytes
    return {"mem_alloc": _some(alloc, alloc > 0), "mem_free": _some(free, free > 0)}


def _edges(recording: CapturedRank, events: list[tuple[int, int]], host: Mask) -> Edges:
    pairs: dict[tuple[int, int], int] = {}
    writer: dict[int, int] = {}
    for i, op in enumerate(recording.ops):
        if host[i]:
            continue  # views and allocations run ahead and delay nothing
        for storage in op.reads:
            last_writer = writer.get(storage, -1)
            if last_writer >= 0:
                pairs.setdefault((last_writer, i), int(EdgeKind.TENSOR))
        for storage in op.writes:
            writer[storage] = i
    for pair in events:
        if pair[0] != pair[1]:
            pairs.setdefault(pair, int(EdgeKind.EVENT))
    if not pairs:
        return Edges.empty()
    both = np.array(list(pairs), np.int32)
    return Edges.of(both[:, 0], both[:, 1], np.array(list(pairs.values()), np.int8))


def collective_name(kind: int) -> str:
    """The name of a kind: `ALL_REDUCE`, `SEND` and so on."""
    return {words.SEND: "SEND", words.RECV: "RECV"}.get(kind) or CollectiveType(kind).name
