"""The cases: how each is built, the question of the schema that it asks, and the answer, written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from chakrakit.trace.files import claimed, take_place, uninterrupted
from chakrakit.trace.model import CollectiveType, NodeType, Trace, TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import read, write
from chakrakit.trace.timing import schedule


class TraceFacts(msgspec.Struct, frozen=True):
    """What is read from a trace of one rank."""

    nodes: int
    edges: int
    """Dependencies on nodes that there are, data and control together; a repeated one counts once."""
    types: dict[str, int]
    """Nodes by type, under the schema's names."""
    comm_bytes: int
    """`comm_size` of all collectives and sends."""
    duration_ns: int
    """Durations of all nodes."""
    step_ns: int
    """When the last node ends if every node starts as soon as all nodes that it depends on have ended."""


class Case(NamedTuple):
    """A trace, what it asks of a reader, and the answer."""

    name: str
    question: str
    build: Callable[[], TraceBuilder]
    expected: TraceFacts


def _empty() -> TraceBuilder:
    return TraceBuilder()


def _chain() -> TraceBuilder:
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1_000)
    b = t.comp("b", duration_ns=2_000, deps=[a])
    t.comp("c", duration_ns=3_000, ctrl_deps=[b])
    return t


def _diamond() -> TraceBuilder:
    t = TraceBuilder()
    top = t.comp("top", duration_ns=1_000)
    sides = [
        t.comp("left", duration_ns=5_000, deps=[top]),
        t.comp("right", duration_ns=2_000, deps=[top]),
    ]
    t.comp("bottom", duration_ns=1_000, deps=sides)
    return t


def _both_lists() -> TraceBuilder:
    t = TraceBuilder()
    a = t.comp("a", duration_ns=1_000)
    t.comp("b", duration_ns=1_000, deps=[a], ctrl_deps=[a])
    return t


def _nanoseconds() -> TraceBuilder:
    t = TraceBuilder()
    t.comp("short", duration_ns=1_500)
    t.comp("shorter", duration_ns=1, deps=[0])
    return t


def _collectives() -> TraceBuilder:
    t = TraceBuilder()
    a = t.collective("sum", CollectiveType.ALL_REDUCE, 1 << 20)
    b = t.collective("gather", CollectiveType.ALL_GATHER, 4096, deps=[a])
    t.collective("all", CollectiveType.BARRIER, 0, deps=[b])
    return t


def _messages() -> TraceBuilder:
    t = TraceBuilder()
    a = t.send("to 1", 0, 1, 512, tag=7)
    t.recv("from 1", 1, 0, 256, tag=7, deps=[a])
    return t


def _memory() -> TraceBuilder:
    t = TraceBuilder()
    load = t.node("load", NodeType.MEM_LOAD_NODE, duration_ns=4_000, tensor_size=1 << 30)
    gemm = t.comp("gemm", duration_ns=1_000, num_ops=1 << 40, deps=[load])
    t.node("store", NodeType.MEM_STORE_NODE, duration_ns=2_000, tensor_size=1 << 30, deps=[gemm])
    return t


def _late_parents() -> TraceBuilder:
    t = TraceBuilder()
    first, second = t.comp("child", duration_ns=1_000), t.comp("parent", duration_ns=2_000)
    t.edge(second, first)
    return t


def _wide() -> TraceBuilder:
    t = TraceBuilder()
    root = t.comp("root", duration_ns=1_000)
    for _ in range(300):
        t.comp("leaf", duration_ns=1_000, deps=[root])
    return t


_COMP, _COLL = "COMP_NODE", "COMM_COLL_NODE"
CASES = (
    Case("empty", "Is a trace without nodes a trace?", _empty, TraceFacts(0, 0, {}, 0, 0, 0)),
    Case("chain", "Do control dependencies hold a node back as data dependencies do?", _chain,
         TraceFacts(3, 2, {_COMP: 3}, 0, 6_000, 6_000)),
    Case("diamond", "Does a node wait for all of its dependencies?", _diamond,
         TraceFacts(4, 4, {_COMP: 4}, 0, 9_000, 7_000)),
    Case("both-lists", "Is a dependency that stands in both lists one dependency?", _both_lists,
         TraceFacts(2, 1, {_COMP: 2}, 0, 2_000, 2_000)),
    Case("nanoseconds", "Is `duration_ns` the duration where microseconds are not exact?", _nanoseconds,
         TraceFacts(2, 1, {_COMP: 2}, 0, 1_501, 1_501)),
    Case("collectives", "Is `comm_size` read for collectives, and may it be 0?", _collectives,
         TraceFacts(3, 2, {_COLL: 3}, (1 << 20) + 4096, 0, 0)),
    Case("messages", "Are sends and receives nodes of their own types?", _messages,
         TraceFacts(2, 1, {"COMM_SEND_NODE": 1, "COMM_RECV_NODE": 1}, 512, 0, 0)),
    Case("memory", "Are sizes beyond 32 bits read?", _memory,
         TraceFacts(3, 2, {"MEM_LOAD_NODE": 1, _COMP: 1, "MEM_STORE_NODE": 1}, 0, 7_000, 7_000)),
    Case("late-parents", "May a node stand before what it depends on?", _late_parents,
         TraceFacts(2, 1, {_COMP: 2}, 0, 3_000, 3_000)),
    Case("wide", "May hundreds of nodes depend on one?", _wide,
         TraceFacts(301, 300, {_COMP: 301}, 0, 301_000, 2_000)),
)  # fmt: skip
"""The set. An answer is never computed from the trace that it is about."""


def write_cases(folder: Path) -> dict[str, Path]:
    """Writes every case as an `.et` file; gives their paths by name. All or none are left, if stopped."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = {case.name: f"{case.name}.0.et" for case in CASES}
    with claimed(folder, folder=True) as written:
        for case in CASES:
            write(TraceSet([case.build().build()]), written / names[case.name])
        if not folder.exists():
            take_place(written, folder)
        else:  # what else lies there stays
            with uninterrupted():
                for name in names.values():
                    (written / name).replace(folder / name)
    return {case: folder / name for case, name in names.items()}


def facts_of(path: Path) -> TraceFacts:
    """What this implementation reads from a file."""
    trace: Trace = read(path).trace(0)
    kinds = trace.column("type", 0).astype(np.int64)
    moved = np.isin(kinds, (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE))
    lengths = np.maximum(trace.end_ns - trace.start_ns, 0)
    pairs = set(zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), strict=True))
    timed = schedule(len(trace), trace.edges, lengths)
    return TraceFacts(
        len(trace),
        len(pairs),
        dict(Counter(NodeType(int(k)).name for k in kinds)),
        int(trace.column("comm_size", 0)[moved].sum()),
        int(lengths.sum()),
        int(timed.end.max(initial=0)),
    )
