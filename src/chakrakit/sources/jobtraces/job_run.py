"""A job trace as a Run: one rank per worker, steps one after another, dependencies as the job had them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.jobtraces.operations import (
    COLLECTIVES,
    MESSAGES,
    OPERATIONS,
    Operations,
    read_operations,
)
from chakrakit.sources.jobtraces.order import Order, Worker, order_of
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, Run

_TYPES = {
    **{name: NodeType.COMM_SEND_NODE for name in MESSAGES if name.endswith("send")},
    **{name: NodeType.COMM_RECV_NODE for name in MESSAGES if name.endswith("recv")},
    **dict.fromkeys(COLLECTIVES, NodeType.COMM_COLL_NODE),
}
_COLLECTIVES = {
    "params-all-gather": CollectiveType.ALL_GATHER,
    "grads-reduce-scatter": CollectiveType.REDUCE_SCATTER,
}
_REPLICAS = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
"""Collectives of the ranks that hold the same stage."""

_SLOT = 1 << 20
"""More than the operations of one type that a worker has in a step."""


def read_job_trace(path: str | Path) -> Run:
    """A job trace as a Run.

    Nodes carry `step`, `stage`, `dp_rank` and `micro_batch`. Steps follow one another without the pauses
    between them, which were not recorded. Of a tensor-parallel group only one rank was recorded.
    """
    operations = read_operations(path)
    ranks = np.unique(operations.rank)
    orders = _orders(operations)
    begin = _step_begins(operations)
    at = {
        (int(d), int(s)): int(r)
        for d, s, r in zip(operations.dp_rank, operations.stage, operations.rank, strict=True)
    }
    bodies = [_trace(operations.take(operations.rank == rank), orders, begin, at) for rank in ranks]
    sizes = {
        "dp": int(operations.dp_rank.max()) + 1,
        "pp": operations.stages,
        "vpp": operations.chunks,
    }
    card = Card(
        name=Path(path).stem, tool="job trace", source=[Path(path).name], settings={"layout": sizes}
    )
    bindings = {int(rank): Binding(i) for i, rank in enumerate(ranks)}
    return Run(bodies, bindings, _groups(at, operations.stages), card)


def _orders(operations: Operations) -> dict[int, Order]:
    """The order of every stage, from the first step of the first replica that has it."""
    out = {}
    for stage in np.unique(operations.stage).tolist():
        here = operations.take(operations.stage == stage)
        here = here.take(here.step == here.step.min())
        here = here.take(here.dp_rank == here.dp_rank.min())
        out[stage] = order_of(Worker(here, operations.stages, operations.chunks))
    return out


def _step_begins(operations: Operations) -> dict[int, int]:
    """When each step begins on a time line on which one follows another."""
    begin, now = {}, 0
    for step in np.unique(operations.step).tolist():
        mine = operations.step == step
        begin[step] = now - int(operations.start[mine].min())
        now += int(operations.end[mine].max()) - int(operations.start[mine].min())
    return begin


def _groups(at: Mapping[tuple[int, int], int], stages: int) -> Groups:
    replicas = sorted({d for d, _ in at})
    present = sorted({s for _, s in at})
    found = {f"stage {s}": [at[d, s] for d in replicas if (d, s) in at] for s in present}
    for d in replicas:
        ends = {at[d, s]: None for s in (0, stages - 1) if (d, s) in at}
        found[f"embedding {d}"] = list(ends)
    found |= {f"tensor {rank}": [rank] for rank in sorted(at.values())}
    return Groups({**found, "job": sorted(at.values())})


def _trace(
    mine: Operations,
    orders: Mapping[int, Order],
    begin: Mapping[int, int],
    at: Mapping[tuple[int, int], int],
) -> Trace:
    shift = np.array([begin[s] for s in mine.step.tolist()], np.int64)
    mine = mine.take(np.lexsort((mine.code, mine.seq_id, mine.start + shift)))
    shift = np.array([begin[s] for s in mine.step.tolist()], np.int64)
    order = orders[int(mine.stage[0])]
    names = [OPERATIONS[code] for code in mine.code.tolist()]
    columns: dict[str, Any] = {
        "name": names,
        "type": np.array([int(_TYPES.get(n, NodeType.COMP_NODE)) for n in names], np.int32),
        **_times("start_time", mine.start + shift),
        **_times("duration", mine.end - mine.start),
        "is_cpu_op": np.zeros(len(mine), np.bool_),
        "step": mine.step,
        "stage": mine.stage,
        "dp_rank": mine.dp_rank,
        "micro_batch": _known(mine.mb_id),
        "chunk": _known(mine.mc),
        **_communication(mine, names, order, at),
    }
    return Trace.from_columns(columns, _edges(mine, order))


def _times(what: str, nanoseconds: I64) -> dict[str, I64]:
    return {f"{what}_micros": nanoseconds // 1000, f"{what}_ns": nanoseconds}


def _known(values: I64) -> list[int | None]:
    return [v if v >= 0 else None for v in values.tolist()]


def _communication(
    mine: Operations, names: list[str], order: Order, at: Mapping[tuple[int, int], int]
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        name: [None] * len(mine)
        for name in (
            "pg_name",
            "comm_seq",
            "comm_type",
            "comm_size",
            "comm_src",
            "comm_dst",
            "comm_tag",
        )
    }
    number = {s: n for n, s in enumerate(np.unique(mine.step).tolist())}
    pairs = {(n, s): i for n, found in order.paired.items() for i, s in enumerate(found)}
    for i, name in enumerate(names):
        if name not in _TYPES:
            continue
        fields = (
            _message(mine, i, name, pairs, at) if name in MESSAGES else _collective(mine, i, name)
        )
        if name not in MESSAGES:
            fields["comm_seq"] += number[int(mine.step[i])] * _SLOT * len(OPERATIONS)
        for column, value in fields.items():
            columns[column][i] = value
    return columns


def _collective(mine: Operations, i: int, name: str) -> dict[str, Any]:
    if name in _REPLICAS:
        group = f"stage {mine.stage[i]}"
    elif name == "embedding-grads-all-reduce":
        group = f"embedding {mine.dp_rank[i]}"
    elif name == "optimizer-clip-main-grad":
        group = "job"
    else:
        group = f"tensor {mine.rank[i]}"
    return {
        "pg_name": group,
        "comm_type": int(_COLLECTIVES.get(name, CollectiveType.ALL_REDUCE)),
        "comm_size": 0,
        "comm_seq": int(mine.code[i]) * _SLOT + int(mine.seq_id[i]),
    }


def _message(
    mine: Operations,
    i: int,
    name: str,
    pairs: Mapping[tuple[str, int], int],
    at: Mapping[tuple[int, int], int],
) -> dict[str, Any]:
    """Ends and tag; a message without another end gets a tag that nobody else has."""
    way, side = name.split("-")
    onward = (way == "forward") == (side == "send")
    stages = 1 + max(s for _, s in at)
    peer = (int(mine.stage[i]) + (1 if onward else -1)) % stages
    own, other = int(mine.rank[i]), at.get((int(mine.dp_rank[i]), peer), int(mine.rank[i]))
    ends = (own, other) if side == "send" else (other, own)
    nth = pairs.get((name, int(mine.seq_id[i])))
    kind = {"forward": 0, "backward": 1}[way]
    if nth is None:
        kind, nth = 2 + MESSAGES.index(name), int(mine.seq_id[i])
    return {
        "comm_src": ends[0],
        "comm_dst": ends[1],
        "comm_size": 0,
        "comm_tag": kind * _SLOT + nth,
    }


def _edges(mine: Operations, order: Order) -> Edges:
    """The order of a step, for every step at once; operations that a step lacks are passed over."""
    steps, step = np.unique(mine.step, return_inverse=True)
    width = len(OPERATIONS) * _SLOT
    key = step.reshape(-1) * width + mine.code * _SLOT + mine.seq_id
    rows = np.argsort(key, kind="stable")
    known = key[rows]
    code = {name: n for n, name in enumerate(OPERATIONS)}

    def find(keys: list[tuple[str, int]]) -> I64:
        wanted = np.array([code[name] * _SLOT + seq for name, seq in keys], np.int64)
        every = np.arange(len(steps))[:, None] * width + wanted
        place = np.minimum(np.searchsorted(known, every), len(known) - 1)
        return np.where(known[place] == every, rows[place], -1).reshape(-1)

    if not order.edges:
        return Edges.of([], [], EdgeKind.INFERRED, EdgeForm.FINISH_START)
    src, dst = find([a for a, _ in order.edges]), find([b for _, b in order.edges])
    both = (src >= 0) & (dst >= 0)
    return Edges.of(src[both], dst[both], EdgeKind.INFERRED, EdgeForm.FINISH_START)
