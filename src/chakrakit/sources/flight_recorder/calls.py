"""A rank's recorded calls as a communication trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.sources.flight_recorder.dump import STATES, Dump
from chakrakit.sources.pytorch import collectives as words
from chakrakit.sources.pytorch.candidates import Candidates
from chakrakit.trace.edges import EdgeForm, EdgeKind, Edges
from chakrakit.trace.metadata import Metadata
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace

I64 = NDArray[np.int64]
_PEERS = re.compile(r"(\d+)\s*(->|<-)\s*(\d+)")


def times(dump: Dump) -> tuple[I64, I64]:
    """When each call was issued and when it was over, on the rank's clock; equal where it never was.

    A call is issued when the host enqueues it. The recorder learns of its end by polling, unless the
    device's own time was recorded.
    """
    start = np.where(dump.created >= 0, dump.created, np.maximum(dump.started, 0))
    begun = np.where(dump.started >= start, dump.started, start)
    end = np.where(dump.completed >= 0, dump.completed, begun + np.maximum(dump.device_ns, 0))
    return start, np.maximum(np.where(dump.state == len(STATES) - 1, end, start), start)


def call_trace(dump: Dump, groups: list[str], rank: int, epoch: int) -> Trace:
    """One node per call, with times counted from `epoch`; `groups` are the names to use."""
    start, end = times(dump)
    kinds = np.array([words.kind_of(n) for n in dump.names] or [0], np.int64)[dump.name]
    columns: dict[str, Any] = {
        "name": _dictionary(dump.name, dump.names),
        "type": _types(kinds, dump),
        "start_time_micros": ((start - epoch) // 1000).astype(np.uint64),
        "duration_micros": ((end - start) // 1000).astype(np.uint64),
        "start_time_ns": start - epoch,
        "duration_ns": end - start,
        "is_cpu_op": np.zeros(len(dump), np.bool_),
        "stream": dump.group,
        "comm_type": pa.array(kinds, mask=kinds < 0),
        "comm_size": _bytes(dump, dump.in_sizes, dump.in_types),
        "out_size": _bytes(dump, dump.out_sizes, dump.out_types),
        "comm_dtype": _dictionary(dump.in_types, [_first_text(t) for t in dump.texts]),
        "pg_name": _dictionary(dump.group, groups),
        "comm_seq": dump.sequence,
        "comm_state": _dictionary(dump.state, list(STATES)),
        **_peers(dump, kinds, rank),
    }
    return Trace.from_columns(columns, call_edges(dump, start, end), Metadata.of("1.0.0", rank=rank))


def call_edges(dump: Dump, start: I64, end: I64) -> Edges:
    """Calls in the order the host issued them, and each after the one before it in its group."""
    causes = Candidates(start, end)
    rows = np.arange(len(dump))
    issued = rows[np.argsort(start, kind="stable")]
    gap = np.diff(start[issued])
    causes.add(EdgeKind.THREAD, EdgeForm.START_START, issued[:-1], issued[1:], gap)
    before = rows[np.argsort(dump.group, kind="stable")]
    same = dump.group[before[1:]] == dump.group[before[:-1]]
    a, b = before[:-1][same], before[1:][same]
    free = end[a] <= start[b]  # a call may be issued while the one before it still runs
    causes.add(EdgeKind.STREAM, EdgeForm.FINISH_START, a[free], b[free], 0)
    return causes.settle()[0]


def _dictionary(codes: I64, values: list[str]) -> pa.DictionaryArray:
    valid = (codes >= 0) & (codes < len(values))
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=~valid), pa.array(values, pa.string())
    )


def _types(kinds: I64, dump: Dump) -> NDArray[np.int32]:
    out = np.full(len(dump), NodeType.COMM_COLL_NODE, np.int32)
    out[kinds == words.SEND] = NodeType.COMM_SEND_NODE
    out[kinds == words.RECV] = NodeType.COMM_RECV_NODE
    return out


def _bytes(dump: Dump, sizes: I64, types: I64) -> I64:
    """Bytes of all tensors of each call; distinct pairs of shapes and types are few."""
    pairs = sizes * len(dump.texts) + types
    distinct, where = np.unique(pairs, return_inverse=True)
    found = [
        _total(dump.texts[p // len(dump.texts)], dump.texts[p % len(dump.texts)])
        for p in distinct.tolist()
    ]
    return np.array(found or [0], np.int64)[where.ravel()]


def _total(shapes: Any, types: Any) -> int:
    if not isinstance(shapes, list) or not isinstance(types, list):
        return 0
    items = [words.ITEM_BYTES.get(str(t).lower(), 0) for t in types] or [0]
    total = 0
    for i, shape in enumerate(shapes):
        plain = shape if isinstance(shape, list) else [shape]
        elements = 1
        for n in plain:
            elements *= n if isinstance(n, int) and n >= 0 else 0
        total += elements * items[min(i, len(items) - 1)]
    return min(total, 2**62)


def _first_text(said: Any) -> str:
    return str(said[0]).lower() if isinstance(said, list) and said else ""


def _peers(dump: Dump, kinds: I64, rank: int) -> dict[str, Any]:
    """Both ends of messages, as ranks: names such as `nccl:send 1->2` count within the group."""
    chosen = np.flatnonzero((kinds == words.SEND) | (kinds == words.RECV))
    if not len(chosen):
        return {}
    src, dst = np.full(len(dump), -1, np.int64), np.full(len(dump), -1, np.int64)
    for row in chosen.tolist():
        src[row], dst[row] = _ends(dump, row, rank, bool(kinds[row] == words.SEND))
    known = src >= 0
    tag = np.zeros(len(dump), np.int64)
    return {
        name: pa.array(values.astype(np.int32), mask=~known)
        for name, values in (("comm_src", src), ("comm_dst", dst), ("comm_tag", tag))
    }


def _ends(dump: Dump, row: int, rank: int, sends: bool) -> tuple[int, int]:
    match = _PEERS.search(dump.names[int(dump.name[row])])
    if match is None:
        return -1, -1
    members = dump.groups[int(dump.group[row])].ranks
    other = int(match[3])
    peer = members[other] if other < len(members) else other
    return (rank, peer) if sends else (peer, rank)
