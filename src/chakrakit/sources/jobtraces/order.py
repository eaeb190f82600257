"""What follows what on one worker of a training job.

The order is taken from one step of one replica, since all follow the same schedule: compute in the
recorded order, each kind of message in order on a stream of its own, then what ends the step. A message
belongs to one compute operation: the n-th receive precedes the n-th of its direction, the n-th send
follows it. With virtual stages, messages that have no other end (into the first, out of the last chunk)
are recorded all the same; they count, and wait for nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from chakrakit.sources.jobtraces.operations import OPERATIONS, Operations

Key = tuple[str, int]
"""An operation of a worker in a step: its type and seq_id."""

CLOCKS = 50_000
"""Nanoseconds by which the clocks of two operations may differ (the published analysis allows as much)."""

_LAST = ("layernorm-grads-all-reduce", "embedding-grads-all-reduce")


@dataclass
class Order:
    """One stage's order: pairs of operations, and which messages have another end."""

    edges: list[tuple[Key, Key]] = field(default_factory=list)
    paired: dict[str, list[int]] = field(default_factory=dict)
    """By type of message, the seq_ids of those with another end, in order."""

    def after(self, first: Key, then: Key) -> None:
        """`then` cannot start before `first` has ended."""
        self.edges.append((first, then))

    def chain(self, keys: list[Key]) -> None:
        """One after another."""
        for first, then in pairwise(keys):
            self.after(first, then)


class Worker:
    """One worker's operations in the step that all are taken after."""

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


def order_of(worker: Worker) -> Order:
    """The order on one worker."""
    order = Order()
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


def _messages(order: Order, worker: Worker, way: str, side: str) -> None:
    """A stream of messages and the compute operations they belong to."""
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
    """Messages recorded before the first or after the last compute that never carried anything."""
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


def _first_backward(order: Order, worker: Worker, compute: list[Key]) -> None:
    """The first backward messages are issued while the last forward but one still runs."""
    first = next((i for i, key in enumerate(compute) if key[0] == "backward-compute"), 0)
    if first < 2:
        return
    for name in ("backward-recv", "backward-send"):
        for key in worker.of.get(name, [])[:1]:
            order.after(compute[first - 2], key)


def _gathers(order: Order, worker: Worker) -> None:
    """Parameters of a chunk are there before its first forward."""
    gathers = {worker.chunk[key]: key for key in worker.of.get("params-all-gather", [])}
    for chunk, key in gathers.items():
        forward = [k for k in worker.started("forward-compute") if worker.chunk[k] == chunk]
        if forward:
            order.after(key, forward[0])


def _end_of_step(order: Order, worker: Worker, compute: list[Key]) -> None:
    """gc, layer norms, embedding, gradients, clipping, optimizer; gradients may overlap backward."""
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


def _overlapped(order: Order, worker: Worker, reduced: list[Key]) -> None:
    """Gradients of a chunk are reduced once its last backward is done."""
    seen: set[int] = set()
    for key in reduced:
        chunk = worker.chunk[key]
        backward = [k for k in worker.of.get("backward-compute", []) if worker.chunk[k] == chunk]
        if chunk not in seen and backward:
            order.after(max(backward, key=lambda k: worker.end[k]), key)
        seen.add(chunk)
