"""Sets of traces that communication is changed in, and what must be equal before and after."""

from __future__ import annotations

from collections import Counter
from functools import cache

import msgspec
import numpy as np

import chakrakit
from chakrakit import Binding, CollectiveType, NodeType, TraceBuilder, TraceSet
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import EdgeKind
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named
from support import paths
from support.recorded import linked

DATA = paths.DATA / "pytorch"
PLANS = {
    "ddp": {"dp": 4, "data": "ddp", "bucket_mb": 25},
    "fsdp": {"dp": 4, "data": "fsdp"},
    "zero1": {"dp": 4, "data": "zero1"},
    "dp-tp-pp": {"dp": 2, "tp": 2, "pp": 2},
    "ring attention": {"dp": 2, "cp": 2, "context": "ring"},
}
LINKED = {"cnn_ddp_2": 2, "gpt_fsdp_tp_4": 4, "gpt_pp_2": 2}
_COMM = (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)


@cache
def generated(name, **more):
    model = msgspec.structs.replace(model_named("llama3.1-8b"), layers=3)
    plan = Plan(**PLANS[name], **more)
    return generate(Workload(model=model, plan=plan, step=Step(seq=512, global_batch=16)))


def case(name):
    """(traces, machine, how compute is timed)"""
    if name in LINKED:
        return linked(name), f"dgx-h100:{LINKED[name]}", "measured"
    traces = generated(name)
    return traces, f"dgx-h100:{len(traces)}", "roofline"


CASES = [*PLANS, *LINKED]


def makespan(traces, machine, compute="measured"):
    return simulate(traces, machine, compute=compute).makespan_ns


# --- what a set has -----------------------------------------------------------------------------


def compute_of(trace):
    """Every compute node but codecs: what it is and what it costs."""
    rows = np.flatnonzero(trace.is_type(NodeType.COMP_NODE)).tolist()
    names = trace.names.to_pylist()
    work = [trace.column(c, 0) for c in ("num_ops", "tensor_size", "stream", "tid")]
    return Counter(
        (names[r], int(trace.own_ns[r]), *(int(w[r]) for w in work))
        for r in rows
        if not names[r].endswith((".encode", ".decode"))
    )


def bytes_of(traces):
    """Bytes by rank, group (or peers) and type."""
    found = Counter()
    for rank, trace in traces:
        group = trace.column("pg_name", "")
        for row in np.flatnonzero(trace.is_type(*_COMM)).tolist():
            kind = trace.column("comm_type", -1)[row] if trace.types[row] == 7 else -1
            ends = [int(trace.column(c, -1)[row]) for c in ("comm_src", "comm_dst", "comm_tag")]
            key = (rank, int(trace.types[row]), group[row] or "", int(kind), *ends)
            found[key] += int(trace.column("comm_size", 0)[row])
    return found


_DATA = [EdgeKind.DATA, EdgeKind.TENSOR, EdgeKind.EVENT, EdgeKind.SYNC, EdgeKind.AUTOGRAD]


def reached(trace, kinds=None, sample=12):
    """Pairs of compute nodes (by what they are) of which the second is reached from the first."""
    edges = trace.edges
    if kinds is not None:
        edges = edges.where(np.isin(edges.kind, [int(k) for k in kinds]))
    graph = chakrakit.Graph(len(trace), edges.src, edges.dst)
    compute = trace.is_type(NodeType.COMP_NODE)
    labels = labels_of(trace)
    rows = [r for r in np.flatnonzero(compute).tolist() if not _is_codec(labels[r])]
    found = set()
    for row in rows[:: max(1, len(rows) // sample)]:
        below = np.flatnonzero(graph.descendants([row]) & compute).tolist()
        found |= {(labels[row], labels[r]) for r in below if not _is_codec(labels[r])}
    return found


def _is_codec(label):
    return label[0].endswith((".encode", ".decode"))


def labels_of(trace):
    """A name for each row that stays when ids move: its name and how many of that name came before."""
    seen = Counter()
    labels = []
    for name in trace.names.to_pylist():
        labels.append((name, seen[name]))
        seen[name] += 1
    return labels


def data_kinds():
    return _DATA


def alike(t, ranks=2):
    """All ranks run what was built."""
    return TraceSet([t.build()], {r: Binding(0) for r in range(ranks)})


def edges_of(trace, *kinds):
    """(source name, target name) of all edges, or of those of some kinds."""
    names, e = trace.names.to_pylist(), trace.edges
    return {
        (names[s], names[d])
        for s, d, k in zip(e.src.tolist(), e.dst.tolist(), e.kind.tolist(), strict=True)
        if not kinds or k in [int(kind) for kind in kinds]
    }


def sorted_edges(trace, field):
    """One field of all edges, in an order of their own."""
    e = trace.edges
    order = np.lexsort((e.lag, e.kind, e.form, e.src, e.dst))
    return getattr(e, field)[order].tolist()


def values_of(trace, *columns):
    """name → values of some columns"""
    values = [trace.column(c, -1).tolist() for c in columns]
    return dict(zip(trace.names.to_pylist(), zip(*values, strict=True), strict=True))


def gradients(sizes, streamed=True, **extra):
    """A backward pass: each gradient is reduced as soon as it is there; then the optimizer."""
    t = TraceBuilder()
    lane = {"stream": 0} if streamed else {}
    side = {"stream": 1} if streamed else {}
    before, syncs = [], []
    for i, size in enumerate(sizes):
        before = [t.comp(f"b{i}", duration_ns=1000, deps=before, **lane)]
        syncs.append(
            t.collective(
                f"g{i}",
                CollectiveType.ALL_REDUCE,
                size,
                deps=before,
                ctrl_deps=syncs[-1:],
                **side,
                **extra,
            )
        )
    t.comp("step", duration_ns=1000, deps=syncs, **lane)
    return t
