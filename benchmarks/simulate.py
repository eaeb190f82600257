"""The native simulator: 16,384 ranks folded in under 5 s, 1,024 ranks apart in under 60 s and 4 GB.

python benchmarks/simulate.py
"""

from __future__ import annotations

import resource
import time

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import Disturbance, native

NODES, BUCKETS = 1_000, 40


def data_parallel(ranks: int) -> TraceSet:
    """A training step of 1,000 nodes per rank: kernels on one stream, gradient buckets on another."""
    t, last = TraceBuilder(), None
    every = NODES // BUCKETS - 1
    for i in range(NODES - BUCKETS):
        last = t.comp(
            f"k{i % 50}", duration_ns=20_000, stream=7, deps=[] if last is None else [last]
        )
        if i % every == every - 1:
            t.collective("gradients", CollectiveType.ALL_REDUCE, 25 << 20, stream=20, deps=[last])
    return TraceSet([t.build()], {r: Binding(0) for r in range(ranks)}, Groups({"": range(ranks)}))


def three_dimensional(ranks: int) -> TraceSet:
    """Tensor parallel groups of 8 inside nodes, data parallel groups across them, overlapping."""
    t, last = TraceBuilder(), None
    for i in range(300):
        last = t.comp("k", duration_ns=20_000, stream=7, deps=[] if last is None else [last])
        last = t.collective(
            "tp", CollectiveType.ALL_REDUCE, 4 << 20, stream=7, deps=[last], pg_name="tp"
        )
        if i % 10 == 9:
            t.collective(
                "dp", CollectiveType.ALL_REDUCE, 50 << 20, stream=20, deps=[last], pg_name="dp"
            )
    groups = {f"tp{n}": range(8 * n, 8 * n + 8) for n in range(ranks // 8)}
    groups |= {f"dp{i}": range(i, ranks, 8) for i in range(8)}
    bindings = {r: Binding(0, {"tp": f"tp{r // 8}", "dp": f"dp{r % 8}"}) for r in range(ranks)}
    return TraceSet([t.build()], bindings, Groups(groups))


def report(what: str, traces: TraceSet, options: native.SimulationOptions) -> None:
    machine = load_machine(f"dgx-h100:{len(traces) // 8}")
    begun = time.process_time()
    out = native.run(traces, machine, options)
    cpu = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    nodes = len(out.start)
    fold = f"fold {out.classes.factor:,.0f}"
    costs = (
        f"{cpu / max(1, out.events) * 1e9:,.0f} ns per event, {cpu / nodes * 1e9:,.0f} ns per node"
    )
    print(f"{what:36} {len(traces):7,} ranks {cpu:6.2f} s CPU {peak:5.2f} GB  {fold:12} {costs}")


def main() -> None:
    jitter = native.SimulationOptions(disturbance=Disturbance(jitter=0.05, seed=1))
    report("data parallel, folded", data_parallel(16_384), native.SimulationOptions())
    report(
        "data parallel, all ranks apart", data_parallel(1_024), native.SimulationOptions(fold=False)
    )
    report("data parallel, jitter", data_parallel(1_024), jitter)
    report("tensor and data parallel, folded", three_dimensional(4_096), native.SimulationOptions())
    report("tensor and data parallel, jitter", three_dimensional(256), jitter)


if __name__ == "__main__":
    main()
