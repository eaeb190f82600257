"""A rank's recorded calls as a communication trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64
from chakrakit.operators import find_type
from chakrakit.sources.calls.record import STATES, RecordedCalls
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Metadata, NodeType, Trace

_PEERS = re.compile(r"(?<!\d)(\d{1,9})\s*(->|<-)\s*(\d{1,9})(?!\d)")


def times(calls: RecordedCalls) -> tuple[I64, I64]:
    """When each call was issued and when it ended, on the rank's clock; equal for a call that never ended.

    A call is issued when the host enqueues it. The recorder learns of its end by polling, unless the
    device's own time was recorded.
    """
    start = np.where(calls.created >= 0, calls.created, np.maximum(calls.started, 0))
    begun = np.where(calls.started >= start, calls.started, start)
    end = np.where(calls.completed >= 0, calls.completed, begun + np.maximum(calls.device_ns, 0))
    return start, np.maximum(
        np.where((calls.state == len(STATES) - 1) | (calls.state < 0), end, start), start
    )


def kinds_of(calls: RecordedCalls) -> I64:
    """The CollectiveType of each call, or SEND, RECV or UNKNOWN of `sources.pytorch.names`."""
    return np.array([words.kind_of(n) for n in calls.names] or [0], np.int64)[calls.name]


BETWEEN = "between calls"
"""Name of the nodes that stand for what a rank did between two calls."""


def call_trace(calls: RecordedCalls, groups: list[str], follows: I64) -> Trace:
    """The program of a rank: two nodes per call, one for the time since the last call and one for the call.

    Times are not part of it: ranks that make the same calls share the program. `groups` are the
    names to use, `follows` the calls that begin only after the one before in their group has ended.
    """
    kinds = kinds_of(calls)
    columns: dict[str, Any] = {
        "name": _name_column(calls),
        "type": _types(kinds, calls),
        "is_cpu_op": np.arange(2 * len(calls)) % 2 == 0,
        "stream": _of_calls(calls.group),
        "comm_type": _of_calls(kinds, kinds >= 0),
        "comm_size": _of_calls(_bytes(calls, calls.in_sizes, calls.in_types)),
        "out_size": _of_calls(_bytes(calls, calls.out_sizes, calls.out_types)),
        "comm_dtype": _texts(calls.in_types, [_first_text(t) for t in calls.texts]),
        "pg_name": _texts(calls.group, groups),
        "comm_seq": _of_calls(calls.sequence),
        **_peers(calls, kinds),
    }
    if (calls.state >= 0).any():
        columns["comm_state"] = _texts(calls.state, list(STATES))
    return Trace.from_columns(columns, call_edges(calls, follows), Metadata.of("1.0.0"))


def node_times(calls: RecordedCalls, epoch: int) -> tuple[I64, I64]:
    """Start and end of the nodes of `call_trace`, counted from `epoch`; calls must be in issue order."""
    start, end = times(calls)
    both = np.empty((2, len(calls), 2), np.int64)
    both[0, :, 0] = np.r_[start[:1], start[:-1]]
    both[1, :, 0] = both[0, :, 1] = start
    both[1, :, 1] = end
    return both[0].reshape(-1) - epoch, both[1].reshape(-1) - epoch


def followers(calls: RecordedCalls) -> tuple[I64, NDArray[np.bool_]]:
    """For each call the one before it in its group (-1 for the first), and whether that had ended."""
    start, end = times(calls)
    order = np.argsort(calls.group, kind="stable")
    same = calls.group[order[1:]] == calls.group[order[:-1]]
    before = np.full(len(calls), -1, np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before, (before >= 0) & (end[before] <= start)


def call_edges(calls: RecordedCalls, follows: I64) -> Edges:
    """Edges that keep calls in the order they were issued, and those in `follows` behind their predecessor.

    Row 2i is what the rank did before its i-th call, row 2i + 1 the call.
    """
    n = len(calls)
    call = 2 * np.arange(n) + 1
    before = followers(calls)[0][follows]
    return Edges.concat(
        [
            Edges.of(call - 1, call, EdgeKind.THREAD, EdgeForm.FINISH_START, 0),
            Edges.of(call[:-1], call[1:] - 1, EdgeKind.CALL, EdgeForm.START_START, 0),
            Edges.of(2 * before + 1, call[follows], EdgeKind.STREAM, EdgeForm.FINISH_START, 0),
        ]
    )


def _of_calls(values: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column that only calls have; it is null for the nodes between calls."""
    wide = np.zeros((len(values), 2), values.dtype)
    wide[:, 1] = values
    is_set = np.zeros((len(values), 2), np.bool_)
    is_set[:, 1] = True if valid is None else valid
    return pa.array(wide.reshape(-1), mask=~is_set.reshape(-1))


def _name_column(calls: RecordedCalls) -> pa.DictionaryArray:
    wide = np.full((len(calls), 2), len(calls.names), np.int32)
    wide[:, 1] = calls.name
    return pa.DictionaryArray.from_arrays(
        pa.array(wide.reshape(-1)), pa.array([*calls.names, BETWEEN], pa.string())
    )


def _texts(codes: I64, values: list[str]) -> pa.DictionaryArray:
    valid = (codes >= 0) & (codes < len(values))
    index = _of_calls(codes.astype(np.int32), valid)
    return pa.DictionaryArray.from_arrays(index, pa.array(values, pa.string()))


def _types(kinds: I64, calls: RecordedCalls) -> NDArray[np.int32]:
    out = np.full((len(calls), 2), NodeType.COMP_NODE, np.int32)
    out[:, 1] = NodeType.COMM_COLL_NODE
    out[kinds == words.SEND, 1] = NodeType.COMM_SEND_NODE
    out[kinds == words.RECV, 1] = NodeType.COMM_RECV_NODE
    return out.reshape(-1)


def _bytes(calls: RecordedCalls, sizes: I64, types: I64) -> I64:
    """Bytes of all tensors of each call; distinct pairs of shapes and types are few."""
    pairs = sizes * len(calls.texts) + types
    distinct, where = np.unique(pairs, return_inverse=True)
    pair_bytes = [
        _total(calls.texts[p // len(calls.texts)], calls.texts[p % len(calls.texts)])
        for p in distinct.tolist()
    ]
    total: I64 = np.array(pair_bytes or [0], np.int64)[where.ravel()]
    return total


def _total(shapes: Any, types: Any) -> int:
    if not isinstance(shapes, list) or not isinstance(types, list):
        return 0
    kinds = [find_type(str(t)) for t in types] or [None]
    total = 0
    for i, shape in enumerate(shapes):
        plain = shape if isinstance(shape, list) else [shape]
        elements = 1
        for n in plain:
            elements *= n if isinstance(n, int) and n >= 0 else 0
        kind = kinds[min(i, len(kinds) - 1)]
        total += 0 if kind is None else kind.bytes_of(elements)
    return min(total, 2**62)


def _first_text(texts: Any) -> str:
    return str(texts[0]).lower() if isinstance(texts, list) and texts else ""


def _peers(calls: RecordedCalls, kinds: I64) -> dict[str, Any]:
    """Both ends of messages, as ranks: names such as `nccl:send 1->2` count within the group."""
    messages = np.flatnonzero((kinds == words.SEND) | (kinds == words.RECV))
    if not len(messages):
        return {}
    ends = np.full((2, len(calls)), -1, np.int64)
    for row in messages.tolist():
        ends[:, row] = _ends(calls, row, bool(kinds[row] == words.SEND))
    has_ends = ends[0] >= 0
    tag = np.zeros(len(calls), np.int32)
    return {
        name: _of_calls(values.astype(np.int32), has_ends)
        for name, values in (("comm_src", ends[0]), ("comm_dst", ends[1]), ("comm_tag", tag))
    }


def _ends(calls: RecordedCalls, row: int, sends: bool) -> tuple[int, int]:
    match = _PEERS.search(calls.names[int(calls.name[row])])
    if match is None:
        return -1, -1
    members = calls.groups[int(calls.group[row])].ranks
    mine, peer = (members[n] if n < len(members) else n for n in (int(match[1]), int(match[3])))
    return (mine, peer) if sends else (peer, mine)
