"""Jobs in which something goes wrong: six kinds of anomalies, put into simulated runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from chakrakit.errors import DeadlockError
from chakrakit.machines import load_machine
from chakrakit.machines.device import work_model
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine import Disturbance, Fault, SimulationOptions
from chakrakit.simulator.results import simulate
from chakrakit.trace.communication import Binding
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

KINDS = ("slow rank", "slow link", "never enters", "another order", "another size", "dead link")
TP, STEPS = 8, 3


@cache
def job(ranks: int) -> TraceSet:
    """A small model, tensor-parallel within nodes and data-parallel across them, for some steps."""
    model = model_named("gpt3-125m").replace(layers=1, hidden=1024, heads=16)
    step = Step(seq=256, global_batch=ranks // TP, steps=STEPS)
    return generate(Workload(model=model, plan=Plan(tp=TP, dp=ranks // TP), step=step))


@cache
def site(ranks: int) -> Machine:
    """Nodes of eight H100."""
    return load_machine(f"dgx-h100:{ranks // 8}")


@dataclass(frozen=True)
class Anomaly:
    """What went wrong, where, and the run as far as it came."""

    kind: str
    rank: int
    run: Run
    hung: bool


def anomaly(kind: str, ranks: int, seed: int) -> Anomaly:
    """A run of the job with one anomaly of a kind, at a rank and a place that the seed draws."""
    rng = np.random.default_rng([seed, KINDS.index(kind), ranks])
    rank = int(rng.integers(ranks))
    traces, disturbance = job(ranks), Disturbance()
    if kind == "slow rank":
        disturbance = Disturbance(stragglers={rank: float(rng.uniform(1.2, 2.0))})
    elif kind == "never enters":
        disturbance = Disturbance(faults=[Fault("device", rank, float(rng.uniform(5e4, 4e5)), 0.0)])
    elif kind in ("slow link", "dead link"):
        share = 0.0 if kind == "dead link" else float(rng.uniform(0.05, 0.3))
        disturbance = Disturbance(faults=[Fault("link", (rank, _port(ranks, rank)), 0.0, share)])
    else:
        traces = _deviating(traces, rank, kind, rng)
    return _simulated(kind, rank, traces, ranks, disturbance)


def _simulated(
    kind: str, rank: int, traces: TraceSet, ranks: int, disturbance: Disturbance
) -> Anomaly:
    options = SimulationOptions(
        work=work_model("roofline"), disturbance=disturbance, mismatches="hang"
    )
    try:
        run = simulate(traces, site(ranks), compute="roofline", options=options).run()
    except DeadlockError as hang:
        return Anomaly(kind, rank, hang.simulation.run(), True)
    return Anomaly(kind, rank, run, False)


def _port(ranks: int, rank: int) -> str:
    """The switch at the other end of a rank's adapter."""
    links, names = site(ranks).links, site(ranks).vertex_names()
    mine = np.flatnonzero(links.src == rank)
    return names[int(links.dst[mine[-1]])]


def _deviating(traces: TraceSet, rank: int, kind: str, rng: np.random.Generator) -> TraceSet:
    """One rank with a body of its own, in which a call differs from its group's."""
    old = traces.bindings[rank]
    body = _with_deviation(traces.body_at(old.body), kind, rng)
    bodies = [*(traces.body_at(i) for i in range(traces.body_count)), body]
    bindings = {**traces.bindings, rank: Binding(len(bodies) - 1, old.groups, old.peers, old.scale)}
    return TraceSet(bodies, bindings, traces.groups, traces.card)


def _with_deviation(body: Trace, kind: str, rng: np.random.Generator) -> Trace:
    names = np.array(body.nodes.column("pg_name").to_pylist(), object)
    calls = np.flatnonzero(names == "tp")
    at = int(rng.integers(2, len(calls) - 6))
    sizes, types = body.column("comm_size", 0).copy(), body.column("comm_type", -1).copy()
    if kind == "another size":
        sizes[calls[at]] *= 2
        return body.with_columns({"comm_size": sizes})
    other = next(c for c in calls[at + 1 :].tolist() if types[c] != types[calls[at]])
    pair, turned = [int(calls[at]), other], [other, int(calls[at])]
    outs = body.column("out_size", 0).copy()
    for column in (sizes, types, outs):
        column[pair] = column[turned]
    null = pa.array(types, mask=types < 0)
    return body.with_columns({"comm_size": sizes, "comm_type": null, "out_size": outs})
