"""What a part of a workload amounts to: ranks, nodes, operations, memory and communication, by its traces."""

from __future__ import annotations

from collections import Counter

import numpy as np

from chakrakit.trace.memory import model_state
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.generate import ClassFigures, CommunicationFigures, Figures
from chakrakit.workloads.parts.files import WorkloadPart

_MESSAGES = {int(NodeType.COMM_SEND_NODE): "SEND", int(NodeType.COMM_RECV_NODE): "RECV"}


def figures_of(part: WorkloadPart) -> Figures:
    """The figures of a part."""
    traces = part.traces()
    per_rank = [_class(traces, body) for body in range(traces.body_count)]
    parameters = int(getattr(part.described, "parameters", 0))
    return Figures(
        model=part.name,
        parameters=parameters,
        active_parameters=parameters,
        ranks=len(traces.ranks),
        micro_batches=1,
        tokens=sum(part.workload.get("documents", [])),
        flops_total=sum(c.flops * c.ranks for c in per_rank),
        replicated=[],
        bubble_fraction=0.0,
        per_rank=per_rank,
    )


def _class(traces: TraceSet, body: int) -> ClassFigures:
    ranks = [r for r in traces.ranks if traces.bindings[r].body == body]
    trace = traces.body_at(body)
    operations = trace.column("num_ops", 0)
    types = np.array([str(t) for t in trace.nodes.column("op_type").to_pylist()])
    matrix = np.isin(types, ("matmul", "attention"))
    return ClassFigures(
        rank_class=f"rank {ranks[0]}",
        ranks=len(ranks),
        first_rank=ranks[0],
        nodes=len(trace),
        flops=int(operations[matrix].sum()),
        vector_ops=int(operations[~matrix].sum()),
        memory=_memory(trace),
        comm=_communication(trace, len(traces.ranks)),
    )


def _memory(trace: Trace) -> dict[str, int]:
    memory = Counter({part.kind: part.bytes for part in model_state(trace)})
    held, freed = trace.column("mem_alloc", 0), trace.column("mem_free", 0)
    memory["activations"] = int((np.cumsum(held - freed) + freed).max(initial=0))
    return {**memory, "total": sum(memory.values())}


def _communication(trace: Trace, world: int) -> list[CommunicationFigures]:
    counts: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    columns = (trace.column("type", 0), trace.column("comm_type", -1), trace.column("comm_size", 0))
    for kind, collective, size in zip(*(c.tolist() for c in columns), strict=True):
        name = _MESSAGES.get(kind) or (CollectiveType(collective).name if collective >= 0 else "")
        if name:
            key = (name, 2 if kind in _MESSAGES else world)
            counts[key] += 1
            sizes[key] += size
    return [
        CommunicationFigures(name, "", n, counts[name, n], sizes[name, n])
        for name, n in sorted(counts)
    ]
