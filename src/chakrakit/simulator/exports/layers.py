"""Traces as workloads by layers, which ASTRA-sim 1.0 and SimAI read.

Every collective of a rank is the end of a layer, which holds what was computed since the one before. Kept
are the computation, the collectives with their bytes and groups (those of tensor-parallel size forward,
all others as weight gradients), and their order forward. Messages and overlap have no place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from chakrakit.errors import ConfigError
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import TraceSet

_WORDS = {
    CollectiveType.ALL_REDUCE: "ALLREDUCE",
    CollectiveType.ALL_GATHER: "ALLGATHER",
    CollectiveType.REDUCE_SCATTER: "REDUCESCATTER",
    CollectiveType.ALL_TO_ALL: "ALLTOALL",
    CollectiveType.BROADCAST: "BROADCAST",
}


def layers_text(traces: TraceSet, simai: bool) -> tuple[str, Counter[str]]:
    """The text, of the lowest rank's program, and what was left out: what → how many."""
    rank = traces.ranks[0]
    trace = traces.trace(rank)
    sizes = _members(traces, trace)
    inner = min((n for n in sizes.tolist() if n > 1), default=1)
    left_out: Counter[str] = Counter()
    rows = list(_lines(trace, sizes, inner, left_out))
    if not rows:
        raise ConfigError("nothing in these traces computes or communicates; there are no layers")
    header = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {inner}"
    if simai:
        header += f" ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: {traces.world_size}"
    else:
        header = f"HYBRID_TRANSFORMER model_parallel_NPU_group: {inner}"
    header += " checkpoints: 0 checkpoint_initiates: 0" if simai else ""
    return "\n".join([header, str(len(rows)), *rows, ""]), left_out


def _members(traces: TraceSet, trace: Trace) -> np.ndarray:
    """By row, how many ranks a collective has."""
    names = trace.column("pg_name", "")
    groups = {name: len(ranks) for name, ranks in traces.groups.items()}
    kinds = trace.column("type", 0)
    return np.array(
        [
            groups.get(str(name), traces.world_size) if kind == NodeType.COMM_COLL_NODE else 0
            for name, kind in zip(names.tolist(), kinds.tolist(), strict=True)
        ],
        np.int64,
    )


def _lines(trace: Trace, sizes: np.ndarray, inner: int, left_out: Counter[str]) -> Iterator[str]:
    computed, kinds, own = 0, trace.column("type", 0), np.maximum(trace.own_ns, 0)
    comm, total = trace.column("comm_type", -1), trace.column("comm_size", 0)
    names = trace.names.to_pylist()
    for row in trace.graph.topological_order().tolist():
        kind = int(kinds[row])
        if kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            left_out["messages"] += 1
        elif kind != NodeType.COMM_COLL_NODE:
            computed += int(own[row])
        elif int(comm[row]) not in _WORDS:
            left_out["collectives of other kinds"] += 1
        elif sizes[row] > 1:
            gathers = int(comm[row]) == CollectiveType.ALL_GATHER
            size = int(total[row]) * (int(sizes[row]) if gathers else 1)
            yield _line(
                names[row],
                computed,
                _WORDS[CollectiveType(int(comm[row]))],
                size,
                sizes[row] == inner,
            )
            computed = 0
    if computed:
        yield _line("rest", computed, "NONE", 0, True)


def _line(name: str, computed: int, collective: str, size: int, forward: bool) -> str:
    word = "_".join(str(name).split()) or "layer"
    first = f"{computed}\t{collective}\t{size}" if forward else f"{computed}\tNONE\t0"
    last = "0\tNONE\t0" if forward else f"0\t{collective}\t{size}"
    return f"{word}\t-1\t{first}\t0\tNONE\t0\t{last}\t0"
