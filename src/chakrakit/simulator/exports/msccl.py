"""One collective, or messages alone, as an MSCCL algorithm.

Of a workload with collectives, which all have to be the same, the messages of the algorithm that is chosen
for it are written, with the pieces of the data that each moves. Messages of a workload without collectives
move chunks of their largest common size, whose place is not known. Computation has no place.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import (
    COLLECTIVES,
    SWITCH,
    Algorithms,
    CollectiveSteps,
    TransferStep,
    data_bytes,
)
from chakrakit.simulator.custom import messages_of_traces
from chakrakit.simulator.exports.goal import chosen_steps, one_switch
from chakrakit.sources.foreign import AlgorithmMessage, AlgorithmPlan
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import TraceSet

_NAMES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "broadcast": "broadcast",
}
"""Collectives that work in place, by MSCCL's words."""


def msccl_of(
    traces: TraceSet, machine: Machine | None, algorithms: Algorithms
) -> tuple[AlgorithmPlan, Counter[str]]:
    """The algorithm of a workload, and what was left out: what → how many."""
    left_out: Counter[str] = Counter()
    for rank in traces.ranks:
        kinds = traces.trace(rank).is_type(NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE)
        left_out["computations"] += int(kinds.sum())
    if not len(traces.collectives.calls):
        return _of_messages(traces), left_out
    collective, members, size = _only_collective(traces)
    if len(traces.collectives.messages):
        left_out["messages"] += len(traces.collectives.messages) // 2
    steps = chosen_steps(machine or one_switch(len(traces)), algorithms, collective, members, size)
    messages = list(_messages(steps))
    data = int(data_bytes(collective, size, len(members)))
    name = f"{_NAMES[collective]}_{steps.name or 'direct'}"
    return AlgorithmPlan(
        name, _NAMES[collective], len(members), steps.pieces, messages, data
    ), left_out


def _only_collective(traces: TraceSet) -> tuple[str, tuple[int, ...], int]:
    """The one collective of a workload: its name, its members' places and its bytes."""
    calls = traces.collectives.calls.select(["comm_type", "comm_size", "group"]).to_pylist()
    found = {(c["comm_type"], c["comm_size"], c["group"] or "") for c in calls}
    by_members = {
        (COLLECTIVES.get(kind, "another collective"), len(traces.groups.get(g, traces.ranks)), size)
        for kind, size, g in found
    }
    words = sorted(f"{name} of {size:,} bytes among {n}" for name, n, size in by_members)
    if len(by_members) > 1:
        raise ConfigError(
            f"MSCCL's XML holds one collective, and these are {len(words)}: {', '.join(words[:4])}; "
            "export a workload with one of them"
        )
    name, n, size = next(iter(by_members))
    if name not in _NAMES:
        raise ConfigError(f"{words[0]}: only {', '.join(_NAMES)} are written, which work in place")
    return name, tuple(range(n)), int(size)


def _of_messages(traces: TraceSet) -> AlgorithmPlan:
    messages = messages_of_traces(traces)
    if not messages:
        raise ConfigError("nothing in these traces communicates; there is no algorithm")
    sizes = [int(m.size) for m in messages]
    chunk = math.gcd(*sizes) or 1
    pieces = max(max(sizes) // chunk, 1)
    for message in messages:
        message.size /= chunk
    return AlgorithmPlan("messages", "custom", len(traces.ranks), pieces, messages, chunk * pieces)


def _messages(steps: CollectiveSteps) -> Iterator[AlgorithmMessage]:
    """Every transfer, in runs of neighbouring pieces, after what its members did in the steps before."""
    place = _places(steps)
    count = 0
    done: list[dict[int, set[int]]] = []
    for number, step in enumerate(steps.steps):
        last: dict[int, set[int]] = {}
        for before in steps.after(number):
            for member, messages in done[before].items():
                last.setdefault(member, set()).update(messages)
        for k in range(step.repeat):
            mine: dict[int, set[int]] = {}
            for src, dst, runs in _transfers(step, k, place):
                after = last.get(src, set()) | last.get(dst, set())
                for piece, size in runs:
                    yield AlgorithmMessage(src, dst, size, piece, step.reduce, after)
                    for member in (src, dst):
                        mine.setdefault(member, set()).add(count)
                    count += 1
            last = last | mine
        done.append(last)


def _places(steps: CollectiveSteps) -> I64:
    """Where each piece lies: member p's own is the p-th, as MSCCL has it."""
    if len(steps.owned) == steps.n == steps.pieces:
        return np.argsort(steps.owned)
    return np.arange(steps.pieces)


def _transfers(
    step: TransferStep, k: int, place: I64
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    first = (step.first + k * step.shift) % step.modulus
    base = np.broadcast_to(np.asarray(step.base, np.int64), first.shape)
    for i in range(len(step.src)):
        src, dst = int(step.src[i]), int(step.dst[i])
        if SWITCH in (src, dst):
            raise ConfigError("an algorithm inside a switch has no messages; choose another")
        pieces = base[i] + (first[i] + np.arange(int(step.count[i]))) % step.modulus
        yield src, dst, _runs(np.sort(place[pieces]))


def _runs(pieces: I64) -> list[tuple[int, int]]:
    """The first piece and the number of pieces of each run of neighbours."""
    cuts = np.flatnonzero(np.diff(pieces) != 1) + 1
    return [(int(part[0]), len(part)) for part in np.split(pieces, cuts) if len(part)]
