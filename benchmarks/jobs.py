"""Four jobs of 256 ranks on one fat tree: all at once against each alone, in CPU time.

python benchmarks/jobs.py
"""

from __future__ import annotations

import time

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import place_jobs, simulate, simulate_jobs

JOBS, RANKS, EACH = 4, 256, 8

MACHINE = {
    "name": "fat-tree",
    "device": {"peak": {"bf16": "1 PFLOP/s"}, "memory_bandwidth": "3 TB/s", "memory": "80 GB"},
    "network": [
        {"topology": "switch", "size": EACH, "bandwidth": "450 GB/s", "latency": "300 ns"},
        {
            "topology": "fat-tree",
            "size": 128,
            "arity": [128, 8],
            "bandwidth": "50 GB/s",
            "latency": "1 us",
            "oversubscription": 2,
            "joins": "flat",
        },
    ],
}


def job(layers: int, size: int) -> TraceSet:
    """Tensor parallel within nodes, data parallel across them; layers and sizes differ between jobs."""
    t, last = TraceBuilder(), None
    for i in range(layers):
        last = t.comp(
            f"layer {i}", duration_ns=200_000, stream=7, deps=[] if last is None else [last]
        )
        last = t.collective(
            "tp", CollectiveType.ALL_REDUCE, 4 << 20, stream=7, pg_name="tp", deps=[last]
        )
        t.collective("dp", CollectiveType.ALL_REDUCE, size, stream=20, pg_name="dp", deps=[last])
    groups = {f"tp{n}": range(n * EACH, (n + 1) * EACH) for n in range(RANKS // EACH)}
    groups |= {f"dp{i}": range(i, RANKS, EACH) for i in range(EACH)}
    bound = {r: Binding(0, {"tp": f"tp{r // EACH}", "dp": f"dp{r % EACH}"}) for r in range(RANKS)}
    return TraceSet([t.build()], bound, Groups(groups))


def main() -> None:
    machine = parse_machine(MACHINE, "fat-tree")
    jobs = {f"job {i}": job(16 + 4 * i, (8 + i) << 20) for i in range(JOBS)}
    places = place_jobs([RANKS] * JOBS, machine)
    begin = time.process_time()
    for traces, devices in zip(jobs.values(), places, strict=True):
        simulate(traces, machine, options=SimulationOptions(placement=devices))
    alone = time.process_time() - begin
    begin = time.process_time()
    done = simulate_jobs(jobs, machine, placement=places)
    together = time.process_time() - begin
    slow = ", ".join(f"{j.slowdown:.3f}" for j in done.summary.jobs)
    print(f"alone {alone:.2f} s, together {together:.2f} s ({together / alone:.2f} ×)")
    print(f"slowdowns {slow}; simulated in {len(done.parts)} parts")


if __name__ == "__main__":
    main()
