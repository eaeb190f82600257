"""Job traces: one table of a training job's operations as a Run, with the dependencies the job had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, Mask
from chakrakit.errors import FormatError
from chakrakit.trace.communication import MAX_RANKS, Binding, Groups
from chakrakit.trace.files import read_parquet
from chakrakit.trace.model import CollectiveType, EdgeForm, EdgeKind, Edges, NodeType, Trace
from chakrakit.trace.sets import Card, Run

NUMBERS = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id", "gmc")
TIMES = ("start_ts", "duration")
COLUMNS = (*NUMBERS, *TIMES, "optype")

MESSAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
COLLECTIVES = (
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "embedding-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "optimizer-clip-main-grad",
)
COMPUTE = ("forward-compute", "backward-compute", "gc", "optimizer")
OPERATIONS = (*COMPUTE, *MESSAGES, *COLLECTIVES)
"""All types of operations; their places here are their codes."""

_LONGEST = 1e7
"""Seconds: a step longer than four months is not one."""


@dataclass(frozen=True, eq=False)
class Operations:
    """One entry per operation; times in nanoseconds since the start of its step."""

    path: str
    dp_rank: I64
    stage: I64
    rank: I64
    step: I64
    seq_id: I64
    mc: I64
    mb_id: I64
    gmc: I64
    start: I64
    end: I64
    code: I64
    """The operation's place in `OPERATIONS`."""

    def __len__(self) -> int:
        return len(self.code)

    @property
    def stages(self) -> int:
        """How many pipeline stages there are."""
        return int(self.stage.max()) + 1

    @property
    def chunks(self) -> int:
        """How many model chunks each stage has."""
        return int(self.mc.max(initial=0)) + 1

    def take(self, rows: I64 | Mask) -> Operations:
        """The operations in these rows."""
        arrays = {n: v[rows] for n, v in vars(self).items() if isinstance(v, np.ndarray)}
        return Operations(self.path, **arrays)


def is_job_trace(path: str | Path) -> bool:
    """Whether a file is a job trace, by its columns."""
    if not str(path).endswith(".parquet") or not Path(path).is_file():
        return False
    import pyarrow.parquet as pq  # takes a while, and few files are asked

    try:
        return {"optype", "dp_rank", "stage", "start_ts"} <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return False


def read_operations(path: str | Path) -> Operations:
    """The table; a FormatError says what is wrong with it."""
    where = str(path)
    with Path(path).open("rb") as stream:
        table = read_parquet(stream, where, "job trace")
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise FormatError(
            f"no column {missing[0]!r}; a job trace has {', '.join(COLUMNS)}", path=where
        )
    if not table.num_rows:
        raise FormatError("the job trace has no rows; give one that was recorded", path=where)
    numbers = {name: _numbers(table, name, where) for name in NUMBERS}
    start, length = (_nanoseconds(table, name, where) for name in TIMES)
    if (length < 0).any():
        row = int(np.flatnonzero(length < 0)[0])
        raise FormatError(f"row {row} ends before it starts; leave the row out", path=where)
    operations = Operations(
        where, **numbers, start=start, end=start + length, code=_codes(table, where)
    )
    _check_workers(operations)
    return operations


def _numbers(table: pa.Table, name: str, path: str) -> I64:
    column = table[name]
    if column.null_count or not pa.types.is_integer(column.type):
        raise FormatError(f"column {name!r} should hold whole numbers without gaps", path=path)
    values = np.asarray(column)  # of any width: a cast of numbers beyond 64 bits would be an error
    low = -1 if name in ("mc", "mb_id", "gmc") else 0
    most = MAX_RANKS - 1 if name in ("dp_rank", "stage", "rank") else 1 << 40
    wrong = np.flatnonzero((values < low) | (values > most))
    if len(wrong):
        row = int(wrong[0])
        raise FormatError(
            f"column {name!r}, row {row}: {values[row]} is not from {low} to {most}", path=path
        )
    return values.astype(np.int64)


def _nanoseconds(table: pa.Table, name: str, path: str) -> I64:
    column = table[name]
    if column.null_count or not pa.types.is_floating(column.type):
        raise FormatError(f"column {name!r} should hold seconds without gaps", path=path)
    values = np.asarray(column, np.float64)
    if not np.isfinite(values).all() or (np.abs(values) > _LONGEST).any():
        raise FormatError(
            f"column {name!r} has times that are infinite or longer than four months", path=path
        )
    return np.rint(values * 1e9).astype(np.int64)


def _codes(table: pa.Table, path: str) -> I64:
    names = table["optype"].cast(pa.string())
    code = pc.index_in(names, pa.array(OPERATIONS))
    if code.null_count:
        unknown_name = names.filter(pc.is_null(code)).cast(pa.binary())[0].as_py()
        name = None if unknown_name is None else unknown_name.decode(errors="replace")
        raise FormatError(
            f"operation {name!r} is not known; there are {', '.join(OPERATIONS)}", path=path
        )
    return np.asarray(code, np.int64)


def _check_workers(operations: Operations) -> None:
    """Check that each rank has one place in the job and that each operation is listed once."""
    place = operations.dp_rank * operations.stages + operations.stage
    pairs = np.unique(np.stack([operations.rank, place]), axis=1)
    ranks, places = (np.unique(line) for line in pairs)
    if len(ranks) != pairs.shape[1] or len(places) != pairs.shape[1]:
        raise FormatError(
            "two ranks share a stage of one data-parallel replica", path=operations.path
        )
    keys = np.stack([operations.rank, operations.step, operations.code, operations.seq_id])
    if np.unique(keys, axis=1).shape[1] != len(operations):
        raise FormatError(
            "an operation is listed twice: same rank, step, type and seq_id", path=operations.path
        )


# What follows what on one worker of a training job.
#
# The order is taken from one step of one replica, since all follow the same schedule: compute in the
# recorded order, each kind of message in order on a separate stream, then what ends the step. A message
# belongs to one compute operation: the n-th receive precedes the n-th of its direction, the n-th send
# follows it. With virtual stages, messages that have no other end (into the first, out of the last chunk)
# are recorded all the same; they are kept, and wait for nothing.


Key = tuple[str, int]
"""An operation of a worker in a step: its type and seq_id."""

CLOCKS = 50_000
"""Nanoseconds by which the clocks of two operations may differ (the published analysis allows as much)."""

_LAST = ("layernorm-grads-all-reduce", "embedding-grads-all-reduce")


@dataclass
class StageOrder:
    """One stage's order: pairs of operations, and which messages have another end."""

    edges: list[tuple[Key, Key]] = field(default_factory=list)
    paired: dict[str, list[int]] = field(default_factory=dict)
    """By type of message, the seq_ids of those with another end, in order."""

    def after(self, first: Key, then: Key) -> None:
        """`then` cannot start before `first` has ended."""
        self.edges.append((first, then))

    def chain(self, keys: list[Key]) -> None:
        """Each of these starts after the one before it has ended."""
        for first, then in pairwise(keys):
            self.after(first, then)


class Worker:
    """One worker's operations in the step whose order is used for all steps."""

    def __init__(self, operations: Operations, stages: int, chunks: int) -> None:
        self.stages, self.chunks = stages, chunks
        self.start: dict[Key, int] = {}
        self.end: dict[Key, int] = {}
        self.chunk: dict[Key, int] = {}
        self.place: dict[Key, int] = {}
        self.of: dict[str, list[Key]] = {}
        for i in range(len(operations)):
            key = (OPERATIONS[operations.code[i]], int(operations.seq_id[i]))
            self.start[key], self.end[key] = int(operations.start[i]), int(operations.end[i])
            self.chunk[key], self.place[key] = int(operations.mc[i]), int(operations.gmc[i])
            self.of.setdefault(key[0], []).append(key)
        for keys in self.of.values():
            keys.sort(key=lambda key: key[1])

    def started(self, *types: str) -> list[Key]:
        """Operations of some types in the order of their starts."""
        keys = [key for name in types for key in self.of.get(name, [])]
        return sorted(keys, key=lambda key: (self.start[key], key[1], key[0]))


def order_of(worker: Worker) -> StageOrder:
    """The order on one worker."""
    order = StageOrder()
    compute = worker.started("forward-compute", "backward-compute")
    order.chain(compute)
    for way in ("forward", "backward"):
        for side in ("send", "recv"):
            _messages(order, worker, way, side)
    _first_backward(order, worker, compute)
    order.chain(worker.started("params-all-gather", "grads-reduce-scatter"))
    _gathers(order, worker)
    _end_of_step(order, worker, compute)
    return order


def _messages(order: StageOrder, worker: Worker, way: str, side: str) -> None:
    """Order messages of one kind among themselves and against the compute operations they belong to."""
    name = f"{way}-{side}"
    stream = worker.started(name)
    order.chain(stream)
    compute = worker.of.get(f"{way}-compute", [])
    real = [key for key in stream if not _beside_the_step(worker, key, compute, side)]
    # A first receive into the first chunk may not have been recorded.
    skipped = 1 if side == "recv" and 0 < len(real) == len(compute) - 1 else 0
    order.paired[name] = []
    for key, of, before in zip(real, compute[skipped:], [None, *compute][skipped:], strict=False):
        if side == "send":
            order.after(of, key)
        else:
            order.after(key, of)
            if before is not None:
                order.after(before, key)
        if _has_peer(worker, of, way, side):
            order.paired[name].append(key[1])


def _beside_the_step(worker: Worker, key: Key, compute: list[Key], side: str) -> bool:
    """Whether a message was recorded before the first or after the last compute: it carries nothing."""
    if not compute:
        return True
    if side == "recv":
        return worker.start[key] > max(worker.start[c] for c in compute) + CLOCKS
    return worker.end[key] < min(worker.end[c] for c in compute) - CLOCKS


def _has_peer(worker: Worker, compute: Key, way: str, side: str) -> bool:
    """Whether another stage is at the other end: not before the first chunk, not after the last."""
    onward = (way == "forward") == (side == "send")
    peer = worker.place[compute] + (1 if onward else -1)
    return 0 <= peer < worker.stages * worker.chunks


def _first_backward(order: StageOrder, worker: Worker, compute: list[Key]) -> None:
    """Issue the first backward messages after the last forward but one."""
    first = next((i for i, key in enumerate(compute) if key[0] == "backward-compute"), 0)
    if first < 2:
        return
    for name in ("backward-recv", "backward-send"):
        for key in worker.of.get(name, [])[:1]:
            order.after(compute[first - 2], key)


def _gathers(order: StageOrder, worker: Worker) -> None:
    """Gather a chunk's parameters before its first forward."""
    gathers = {worker.chunk[key]: key for key in worker.of.get("params-all-gather", [])}
    for chunk, key in gathers.items():
        forward = [k for k in worker.started("forward-compute") if worker.chunk[k] == chunk]
        if forward:
            order.after(key, forward[0])


def _end_of_step(order: StageOrder, worker: Worker, compute: list[Key]) -> None:
    """Order the end of a step: gc, layer norms, embedding, gradients, clipping, optimizer."""
    reduced = worker.of.get("grads-reduce-scatter", [])
    separate = worker.of.get("separate-grads-all-reduce", [])
    tail = [key for name in ("gc", *_LAST) for key in worker.of.get(name, [])]
    if separate:
        _overlapped(order, worker, reduced)
        if reduced and len(tail) > 1:
            order.after(reduced[-1], tail[1])
        tail += separate
    else:
        tail += reduced
    tail += [k for n in ("optimizer-clip-main-grad", "optimizer") for k in worker.of.get(n, [])]
    last = max(compute, key=lambda key: worker.end[key], default=None)
    order.chain(tail if last is None else [last, *tail])


def _overlapped(order: StageOrder, worker: Worker, reduced: list[Key]) -> None:
    """Reduce gradients of a chunk after its last backward, where that overlaps other chunks' backward."""
    reduced_chunks: set[int] = set()
    for key in reduced:
        chunk = worker.chunk[key]
        backward = [k for k in worker.of.get("backward-compute", []) if worker.chunk[k] == chunk]
        if chunk not in reduced_chunks and backward:
            order.after(max(backward, key=lambda k: worker.end[k]), key)
        reduced_chunks.add(chunk)


# The Run: one rank per worker, steps one after another.
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
"""More than the operations of one type that a worker has in a step, so that keys built with it are unique."""


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


def _orders(operations: Operations) -> dict[int, StageOrder]:
    """The order of every stage, from the first step of the first replica that has it."""
    out = {}
    for stage in np.unique(operations.stage).tolist():
        sample = operations.take(operations.stage == stage)
        sample = sample.take(sample.step == sample.step.min())
        sample = sample.take(sample.dp_rank == sample.dp_rank.min())
        out[stage] = order_of(Worker(sample, operations.stages, operations.chunks))
    return out


def _step_begins(operations: Operations) -> dict[int, int]:
    """What to add to a step's times so that each step begins where the one before it ended."""
    begin, now = {}, 0
    for step in np.unique(operations.step).tolist():
        mine = operations.step == step
        begin[step] = now - int(operations.start[mine].min())
        now += int(operations.end[mine].max()) - int(operations.start[mine].min())
    return begin


def _groups(at: Mapping[tuple[int, int], int], stages: int) -> Groups:
    replicas = sorted({d for d, _ in at})
    present = sorted({s for _, s in at})
    members = {f"stage {s}": [at[d, s] for d in replicas if (d, s) in at] for s in present}
    for d in replicas:
        ends = {at[d, s]: None for s in (0, stages - 1) if (d, s) in at}
        members[f"embedding {d}"] = list(ends)
    members |= {f"tensor {rank}": [rank] for rank in sorted(at.values())}
    return Groups({**members, "job": sorted(at.values())})


def _trace(
    mine: Operations,
    orders: Mapping[int, StageOrder],
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
        "micro_batch": _or_none(mine.mb_id),
        "chunk": _or_none(mine.mc),
        **_communication(mine, names, order, at),
    }
    return Trace.from_columns(columns, _edges(mine, order))


def _times(prefix: str, nanoseconds: I64) -> dict[str, I64]:
    return {f"{prefix}_micros": nanoseconds // 1000, f"{prefix}_ns": nanoseconds}


def _or_none(values: I64) -> list[int | None]:
    return [v if v >= 0 else None for v in values.tolist()]


def _communication(
    mine: Operations, names: list[str], order: StageOrder, at: Mapping[tuple[int, int], int]
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
    pairs = {(n, s): i for n, seq_ids in order.paired.items() for i, s in enumerate(seq_ids)}
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
    """Ends and tag of a message; one without another end gets a tag that no other message has."""
    way, side = name.split("-")
    onward = (way == "forward") == (side == "send")
    stages = 1 + max(s for _, s in at)
    peer = (int(mine.stage[i]) + (1 if onward else -1)) % stages
    rank, peer_rank = int(mine.rank[i]), at.get((int(mine.dp_rank[i]), peer), int(mine.rank[i]))
    ends = (rank, peer_rank) if side == "send" else (peer_rank, rank)
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


def _edges(mine: Operations, order: StageOrder) -> Edges:
    """The order of a step, for every step at once; operations that a step lacks are passed over."""
    steps, step = np.unique(mine.step, return_inverse=True)
    width = len(OPERATIONS) * _SLOT
    key = step.reshape(-1) * width + mine.code * _SLOT + mine.seq_id
    rows = np.argsort(key, kind="stable")
    sorted_keys = key[rows]
    code = {name: n for n, name in enumerate(OPERATIONS)}

    def find(keys: list[tuple[str, int]]) -> I64:
        offsets = np.array([code[name] * _SLOT + seq for name, seq in keys], np.int64)
        every = np.arange(len(steps))[:, None] * width + offsets
        place = np.minimum(np.searchsorted(sorted_keys, every), len(sorted_keys) - 1)
        return np.where(sorted_keys[place] == every, rows[place], -1).reshape(-1)

    if not order.edges:
        return Edges.of([], [], EdgeKind.INFERRED, EdgeForm.FINISH_START)
    src, dst = find([a for a, _ in order.edges]), find([b for _, b in order.edges])
    both = (src >= 0) & (dst >= 0)
    return Edges.of(src[both], dst[both], EdgeKind.INFERRED, EdgeForm.FINISH_START)
