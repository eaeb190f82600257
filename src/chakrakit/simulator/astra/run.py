"""Converts a result to a Run: the workload with every node's times, and counters of links and collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I32, I64, U64
from chakrakit.simulator.astra.result import AstraSimulation
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import NodeType
from chakrakit.trace.sets import SIMULATED, Run, Times, TraceSet

_NAMES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
_WAYS = {"Ring": ("clockwise", "anticlockwise"), "Switch": ("up", "down")}


def link_table(result: AstraSimulation) -> dict[str, Any]:
    """The traffic on each rank's links: messages, bytes and, with congestion, nanoseconds in use.

    `link` names a dimension without congestion; with it, a direction (Ring), up or down (Switch), or all
    links out of the rank together (FullyConnected).
    """
    keys, messages, bytes_, busy = result.outcome.links()
    owner, place, names = _links(result, keys.astype(np.int64))
    row, rank = _per_member(result, result.class_of[owner])
    names_of_rows = np.array(names, object)[place[row]]
    order = np.lexsort((names_of_rows.astype(str), rank))
    return {
        "link": pa.array(names_of_rows[order], pa.string()),
        "rank": rank[order],
        "messages": messages[row][order].astype(np.int64),
        "bytes": bytes_[row][order].astype(np.int64),
        "busy_ns": busy[row][order],
    }


def _per_member(result: AstraSimulation, classes: NDArray[np.uint32]) -> tuple[I64, I64]:
    """The row and the rank of each entry when a class's row is repeated for each of its ranks."""
    by_class = np.argsort(result.class_of, kind="stable")
    sizes = np.bincount(result.class_of)
    first = np.concatenate(([0], np.cumsum(sizes)))[classes]
    counts = sizes[classes]
    row = np.repeat(np.arange(len(classes)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, by_class[first[row] + within]


def _links(result: AstraSimulation, keys: I64) -> tuple[I64, I64, list[str]]:
    """Each link's rank, its place among the rank's links, and the places' names."""
    network = result.config.network
    if result.options.backend == "unaware":
        names = [f"dimension {k}" for k in range(len(network.topology))]
    elif network.topology[0] == "FullyConnected":
        return keys // network.ranks, np.zeros(len(keys), np.int64), ["out"]
    else:
        names = list(_WAYS[network.topology[0]])
    return keys // len(names), keys % len(names), names


def collective_table(result: AstraSimulation) -> pa.Table:
    """Every collective: its group, its place in the group's order, and when members arrived and finished.

    The transfer lasts from `arrival_ns`, when the last member arrived, to `end_ns`.
    """
    parts = [_group_rows(result, group, members) for group, members in _groups(result)]
    return pa.concat_tables(parts).sort_by([("first_ns", "ascending"), ("group", "ascending")])


def _groups(result: AstraSimulation) -> Iterator[tuple[int, list[int]]]:
    yield 0, list(range(result.ranks))
    yield from result.groups.items()


def _group_rows(result: AstraSimulation, group: int, members: list[int]) -> pa.Table:
    """The collectives of one group, from one member of each class; equal ranks have equal times."""
    classes = {int(result.class_of[rank]): rank for rank in reversed(members)}
    by_class = [_member_rows(result, group, rank) for rank in classes.values()]
    count = min((len(start) for start, _, _, _ in by_class), default=0)
    starts = np.array([start[:count] for start, _, _, _ in by_class]).reshape(len(by_class), count)
    ends = np.array([end[:count] for _, end, _, _ in by_class]).reshape(len(by_class), count)
    first, last, finished = starts.min(0), starts.max(0), ends.max(0)
    return pa.table(
        {
            "collective": pa.array([_NAMES[k] for k in by_class[0][2][:count]], pa.string()),
            "group": pa.array([str(group)] * count, pa.string()),
            "seq": np.arange(count),
            "comm_size": by_class[0][3][:count].astype(np.int64),
            "members": np.full(count, len(members)),
            "first_ns": first,
            "arrival_ns": last,
            "end_ns": finished,
        }
    )


def _member_rows(result: AstraSimulation, group: int, rank: int) -> tuple[I64, I64, I32, U64]:
    """A rank's collectives of a group in the order it issued them."""
    table, start = result.table(rank), result.start(rank)
    mine = (table["type"] == NodeType.COMM_COLL_NODE) & (table["group"] == group) & (start >= 0)
    rows = np.flatnonzero(mine)
    rows = rows[np.argsort(start[rows], kind="stable")]
    return start[rows], result.end(rank)[rows], table["collective"][rows], table["bytes"][rows]


def to_run(result: AstraSimulation, traces: TraceSet) -> Run:
    """The simulated traces with their times in ns. Equal ranks share bodies and times."""
    bindings = _bindings(result, traces)
    times: list[Times] = []
    timing: dict[int, int] = {}
    times_of: dict[tuple[int, int], int] = {}
    for rank in range(result.ranks):
        key = (bindings[rank].body, int(result.class_of[rank]))
        if key not in times_of:
            times_of[key] = len(times)
            times.append(_times(result, rank, traces.body_at(bindings[rank].body).ids))
        timing[rank] = times_of[key]
    counters = {"links": link_table(result), "collectives": collective_table(result)}
    settings = {
        "engine": "astra",
        "backend": result.options.backend,
        "queues": result.options.queues,
        "injection_scale": result.options.injection_scale,
        "rendezvous": result.options.rendezvous,
        "lenient": result.options.lenient,
        "classes": len(result.representative),
    }
    card = traces.card.replace(
        tool=SIMULATED, settings=settings, tick_ps=1000, epoch_ns=0, passes=[]
    )
    groups = Groups({str(g): m for g, m in result.groups.items()}).merged(traces.groups)
    return Run(traces.bodies, bindings, groups, card, times=times, timing=timing, counters=counters)


def _bindings(result: AstraSimulation, traces: TraceSet) -> dict[int, Binding]:
    """Ranks whose files had the same bytes share the first one's body."""
    first: dict[int, int] = {}
    bindings = {}
    for rank in range(result.ranks):
        binding = traces.bindings[rank]
        shared = first.setdefault(int(result.program.body_of[rank]), rank)
        bindings[rank] = traces.bindings[shared] if binding.is_plain else binding
    return bindings


def _times(result: AstraSimulation, rank: int, ids: U64) -> Times:
    """A rank's times in the order of its file. Where an id is repeated, its last node is the one that ran."""
    start = np.full(len(ids), -1, np.int64)
    end = start.copy()
    row_of = {node: row for row, node in enumerate(ids.tolist())}
    rows = [row_of[node] for node in result.table(rank)["id"].tolist()]
    start[rows] = result.start(rank)
    end[rows] = result.end(rank)
    return Times(start, end)
