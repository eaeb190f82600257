"""A Run of what actors did: an actor is a rank, what it did are its nodes.

Kernels and uses of pools compute, messages are pairs of a send and a receive, and whoever waited for a
message holds its receive from the moment it began to wait. A message that nobody took is a node of its own.
Sleeping is no node. What follows what in a program is a dependency.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64, Mask
from chakrakit.simulator.collectives import COLLECTIVES
from chakrakit.simulator.live.cast import Cast
from chakrakit.simulator.live.stuck import (
    ACCESS,
    COLLECTIVE,
    COMPUTE,
    ON_HOST,
    PLAY,
    RECEIVE,
    SEND,
    USE,
)
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, Run, Times

_KINDS = {name: int(kind) for kind, name in COLLECTIVES.items()}


def recorded_run(cast: Cast, records: dict[str, Any], card: Card, counters: dict[str, Any]) -> Run:
    """The Run of all actors of a world."""
    end = records["end"].copy()
    last = max(int(end.max(initial=0)), int(records["start"].max(initial=0)))
    end[end < 0] = last  # what was under way when the run ended
    bodies, times = [], []
    order = np.argsort(records["actor"], kind="stable")
    counts = np.bincount(records["actor"], minlength=len(cast.actors))
    for rows in np.split(order, np.cumsum(counts)[:-1]):
        bodies.append(_trace(cast, records, rows))
        times.append(Times(records["start"][rows].copy(), end[rows].copy()))
    groups = Groups({str(g): members for g, members in _groups(records).items()})
    roles = {str(g): str(g) for g in groups}
    return Run(
        bodies,
        {a.number: Binding(a.number, roles) for a in cast.actors},
        groups,
        card,
        times=times,
        timing={a.number: a.number for a in cast.actors},
        counters={**counters, **_pool_counters(cast, records)},
    )


def _groups(records: dict[str, Any]) -> dict[int, list[int]]:
    """The members of each group that called a collective, ascending."""
    calls = np.flatnonzero(records["op"] == COLLECTIVE)
    pairs = np.unique(np.stack([records["peer"][calls], records["actor"][calls]]), axis=1)
    groups: dict[int, list[int]] = {}
    for group, actor in pairs.T.tolist():
        groups.setdefault(group, []).append(actor)
    return groups


def _trace(cast: Cast, records: dict[str, Any], rows: I64) -> Trace:
    op, peer, size = (records[name][rows] for name in ("op", "peer", "size"))
    taken = records["received"][rows] != 0
    sends, receives = (op == SEND) & taken, op == RECEIVE
    calls, stores = op == COLLECTIVE, op == ACCESS
    kind = np.full(len(rows), int(NodeType.COMP_NODE))
    kind[sends] = NodeType.COMM_SEND_NODE
    kind[receives] = NodeType.COMM_RECV_NODE
    kind[calls] = NodeType.COMM_COLL_NODE
    writes = records["place"][rows] == 1
    kind[stores] = np.where(writes[stores], NodeType.MEM_STORE_NODE, NodeType.MEM_LOAD_NODE)
    lost = (op == SEND) & ~taken
    computed = op == COMPUTE
    host = computed & (peer & ON_HOST != 0)
    communicates = sends | receives | calls
    me = int(records["actor"][rows[0]]) if len(rows) else 0
    names = _names(cast, records, rows)
    kinds = [_KINDS.get(name, 0) for name in names]
    labels = [cast.labels[i] if i >= 0 else None for i in records["label"][rows].tolist()]
    pools = [cast.pools[p].name if u else None for p, u in zip(peer, op == USE, strict=True)]
    columns: dict[str, Any] = {
        "name": names,
        "type": kind,
        "is_cpu_op": pa.array(lost | host, mask=communicates),
        "comm_size": pa.array(size, mask=~communicates),
        "comm_type": pa.array(kinds, pa.int64(), mask=~calls),
        "pg_name": pa.array([str(p) for p in peer.tolist()], mask=~calls),
        "comm_src": pa.array(np.where(receives, peer, me), pa.int32(), mask=~(sends | receives)),
        "comm_dst": pa.array(np.where(sends, peer, me), pa.int32(), mask=~(sends | receives)),
        "comm_tag": pa.array(records["link"][rows], mask=~(sends | receives)),
        "comm_seq": pa.array(records["link"][rows], mask=~calls),
        "tensor_size": pa.array(size, mask=~(stores | (computed & (size > 0)))),
        "storage": pa.array([n if s else None for n, s in zip(names, stores, strict=True)]),
        "num_ops": pa.array(np.maximum(records["link"][rows], 0), mask=~computed),
        "dtype": pa.array(_dtypes(records, rows, computed), pa.string()),
        "pool": pa.array(pools, pa.string()),
        "place": pa.array(records["place"][rows], mask=op != USE),
        "fault": pa.array(labels, pa.string()),
    }
    return Trace.from_columns(_used(columns), _edges(records, rows))


def _dtypes(records: dict[str, Any], rows: I64, computed: Mask) -> list[str | None]:
    """The element type of each kernel whose program named one."""
    named, places = records["names"], records["place"][rows]
    return [(named[p] or None) if c else None for p, c in zip(places, computed, strict=True)]


def _used(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns in which some node has something."""
    return {
        n: c for n, c in columns.items() if not (isinstance(c, pa.Array) and c.null_count == len(c))
    }


def _names(cast: Cast, records: dict[str, Any], rows: I64) -> list[str]:
    named = [*records["names"], ""]
    names = [str(named[i]) for i in records["name"][rows].tolist()]
    for i, row in enumerate(rows.tolist()):
        if records["op"][row] == USE:
            names[i] = f"use {cast.pools[records['peer'][row]].name}"
        elif records["op"][row] == RECEIVE:
            names[i] = "receive"
        elif records["op"][row] == PLAY:
            names[i] = names[i] or "play"
    return names


def _edges(records: dict[str, Any], rows: I64) -> Edges:
    """What follows what in a program: nodes of one actor, by their rows in its trace."""
    offsets, deps = records["dep_offsets"], records["deps"]
    counts = np.diff(offsets)[rows]
    dst = np.repeat(np.arange(len(rows)), counts)
    parts = [deps[offsets[r] : offsets[r + 1]] for r in rows.tolist()]
    before = np.concatenate([*parts, np.zeros(0, np.int64)])
    src = np.searchsorted(rows, before)
    known: Mask = (src < len(rows)) & (rows[np.minimum(src, max(len(rows) - 1, 0))] == before)
    src, dst = src[known], dst[known]
    return Edges(
        src.astype(np.int32),
        dst.astype(np.int32),
        np.full(len(src), EdgeKind.CTRL, np.int8),
        np.full(len(src), EdgeForm.FINISH_START, np.int8),
        np.zeros(len(src), np.int64),
        np.ones(len(src), np.bool_),
    )


def _pool_counters(cast: Cast, records: dict[str, Any]) -> dict[str, Any]:
    """How many wait for each pool over time, at the lowest rank that used it."""
    ranks, times, depths, queues = [], [], [], []
    for pool in cast.pools:
        uses = np.flatnonzero((records["op"] == USE) & (records["peer"] == pool.number))
        waited = uses[
            (records["link"][uses] >= 0) & (records["link"][uses] < records["start"][uses])
        ]
        if not len(waited):
            continue
        moments = np.concatenate([records["link"][waited], records["start"][waited]])
        steps = np.repeat([1, -1], len(waited))
        order = np.lexsort((steps, moments))
        at, last = np.unique(moments[order] // 1000, return_index=True)
        last = np.r_[last[1:], len(order)] - 1
        ranks.append(np.full(len(at), int(records["actor"][uses].min())))
        times.append(at)
        depths.append(np.cumsum(steps[order])[last])
        queues += [pool.name] * len(at)
    if not ranks:
        return {}
    joined = (np.concatenate(part) for part in (ranks, times, depths))
    table = dict(zip(("rank", "time_ns", "depth"), joined, strict=True))
    return {"queue_depth": {**table, "queue": queues}}
