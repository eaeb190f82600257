"""A result as a Run: the workload with every node's times, and the counters."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import U64
from chakrakit.simulator.astra.counters import collective_table, link_table
from chakrakit.simulator.astra.result import AstraSimulation
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.sets import Run, Times, TraceSet


def to_run(result: AstraSimulation, traces: TraceSet) -> Run:
    """The traces that were simulated, with their times in ns. Ranks alike share bodies and times."""
    bindings = _bindings(result, traces)
    times: list[Times] = []
    timing: dict[int, int] = {}
    known: dict[tuple[int, int], int] = {}
    for rank in range(result.ranks):
        key = (bindings[rank].body, int(result.class_of[rank]))
        if key not in known:
            known[key] = len(times)
            times.append(_times(result, rank, traces.body_at(bindings[rank].body).ids))
        timing[rank] = known[key]
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
        tool="chakra simulate", settings=settings, tick_ps=1000, epoch_ns=0, passes=[]
    )
    groups = Groups({str(g): m for g, m in result.groups.items()}).merged(traces.groups)
    return Run(traces.bodies, bindings, groups, card, times=times, timing=timing, counters=counters)


def _bindings(result: AstraSimulation, traces: TraceSet) -> dict[int, Binding]:
    """Ranks whose files had the same bytes share the first one's body."""
    first: dict[int, int] = {}
    bindings = {}
    for rank in range(result.ranks):
        own = traces.bindings[rank]
        shared = first.setdefault(int(result.program.body_of[rank]), rank)
        bindings[rank] = traces.bindings[shared] if own.is_plain else own
    return bindings


def _times(result: AstraSimulation, rank: int, ids: U64) -> Times:
    """From ascending id to the file's order. Of repeated ids the last is the one that ran."""
    start = np.full(len(ids), -1, np.int64)
    end = start.copy()
    row_of = {node: row for row, node in enumerate(ids.tolist())}
    rows = [row_of[node] for node in result.table(rank)["id"].tolist()]
    start[rows] = result.start(rank)
    end[rows] = result.end(rank)
    return Times(start, end)
