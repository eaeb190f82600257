"""Fail-slow faults in simulated runs of 512 ranks and 200 steps: who is named, and how often wrongly.

python benchmarks/fail_slow.py [PLANTED] [CLEAN]
"""

from __future__ import annotations

import random
import sys
import time

from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet, analyze
from chakrakit.machines import load_machine
from chakrakit.simulator.engine import Disturbance, Fault, SimulationOptions
from chakrakit.simulator.results import simulate

STEPS, NODES, EACH = 200, 64, 8
RANKS = NODES * EACH


def tensor_and_data() -> TraceSet:
    """Tensor-parallel groups within nodes, data-parallel groups across them."""
    t, last = TraceBuilder(), None
    for step in range(STEPS):
        for i in range(2):
            last = t.comp(
                f"layer {i}",
                duration_ns=400_000,
                stream=7,
                step=step,
                deps=[] if last is None else [last],
            )
            last = t.collective(
                "sum",
                CollectiveType.ALL_REDUCE,
                8 << 20,
                stream=7,
                pg_name="tp",
                step=step,
                deps=[last],
            )
        last = t.collective(
            "gradients",
            CollectiveType.ALL_REDUCE,
            32 << 20,
            stream=7,
            pg_name="dp",
            step=step,
            deps=[last],
        )
    groups = {f"tp{n}": range(n * EACH, (n + 1) * EACH) for n in range(NODES)}
    groups |= {f"dp{i}": range(i, RANKS, EACH) for i in range(EACH)}
    bound = {r: Binding(0, {"tp": f"tp{r // EACH}", "dp": f"dp{r % EACH}"}) for r in range(RANKS)}
    return TraceSet([t.build()], bound, Groups(groups))


def plant(traces: TraceSet, seed: int, kind: str) -> tuple[bool, str]:
    """Whether the fault's rank or link comes first among the culprits, and what was said."""
    chance = random.Random(seed)
    machine = load_machine(f"dgx-h100:{NODES}")
    rank, factor = chance.randrange(RANKS), chance.choice([0.95, 0.9, 0.8, 0.5, 0.2])
    at = chance.uniform(0, 0.8) * STEPS * 1.5e6
    names = machine.vertex_names()
    ends = [(int(a), int(b)) for a, b in zip(machine.links.src, machine.links.dst, strict=True)]
    mine = [(a, b) for a, b in ends if a == rank]
    target = chance.choice(mine)
    faults = {
        "rank": (Fault("device", rank, at, factor),),
        "link": (Fault("link", target, at, min(factor, 0.5)),),
        "clean": (),
    }[kind]
    options = SimulationOptions(
        disturbance=Disturbance(chance.choice([0.01, 0.05]), seed, {}, faults)
    )
    found = analyze(simulate(traces, machine, options=options).run("summary")).culprits
    place = f"{rank}" if kind == "rank" else "-".join(names[v] for v in target)
    said = f"{kind} {place} × {factor} at {at / 1e6:.0f} ms: "
    said += "; ".join(f"{c.detail} (step {c.since_step})" for c in found[:3])
    if kind == "clean":
        return not found, said
    if not found:
        return False, said
    right = (
        found[0].rank == rank
        if kind == "rank"
        else found[0].link == "-".join(names[v] for v in target)
    )
    return right, said


def main(planted: int = 40, clean: int = 40) -> None:
    traces = tensor_and_data()
    begin = time.process_time()
    right = 0
    for seed in range(planted):
        fine, said = plant(traces, seed, "rank" if seed % 2 else "link")
        right += fine
        print("ok  " if fine else "MISS", said, flush=True)
    alarms = 0
    for seed in range(clean):
        fine, said = plant(traces, 1000 + seed, "clean")
        alarms += not fine
        if not fine:
            print("ALARM", said, flush=True)
    each = (time.process_time() - begin) / max(planted + clean, 1)
    print(
        f"{right} of {planted} named, {alarms} false alarms in {clean}; {each:.1f} s of CPU per run"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
