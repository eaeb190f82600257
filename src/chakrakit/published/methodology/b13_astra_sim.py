"""B13, ASTRA-sim 3.0: collectives by their steps and latencies, and one trace in two simulators.

One execution trace, an all-reduce, is run by this package's simulator on routes with contention, which
stands for the truth here, and by ASTRA-sim's engine with the same topology, bandwidth and latency. Held
against it is the coarse model that a large message needs no more than: bytes over bandwidth, with the
latency of no hop or of one. What counts is how far a model is off, as a factor; 2 % is good enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.simulator.astra import AstraOptions, make_config, simulate
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

GOOD = 0.02
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
TOPOLOGIES = {"ring": "Ring", "switch": "Switch"}


@cache
def one_sum(ranks: int, size: int) -> TraceSet:
    """The trace that both simulators read."""
    t = TraceBuilder()
    t.collective("sum", CollectiveType.ALL_REDUCE, size, is_cpu_op=False)
    return TraceSet.of(t, ranks=ranks)


@cache
def site(topology: str, ranks: int, seed: int) -> Machine:
    """Links of 50 GB/s and 500 ns."""
    level = {"topology": topology, "size": ranks, "bandwidth": "50 GB/s", "latency": "500 ns"}
    return unsure(machine({"network": [level]}), seed)


def native_seconds(case: Case, seed: int) -> float:
    """On routes with contention, as a ring."""
    where = site(case["topology"], case["ranks"], seed)
    size = int(case["megabytes"] * 1e6)
    return seconds_of(one_sum(case["ranks"], size), where, "measured", {"all-reduce": "ring"})


def astra_seconds(case: Case, splits: int, seed: int) -> float:
    """By ASTRA-sim's engine; a cycle is a nanosecond."""
    links = site(case["topology"], case["ranks"], seed).links
    system = {
        "endpoint-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": splits,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        **{f"{kind}-implementation": ["ring"] for kind in COLLECTIVES},
    }
    network = {
        "topology": [TOPOLOGIES[case["topology"]]],
        "npus_count": [case["ranks"]],
        "bandwidth": [float(links.bandwidth[0]) / 1e9],
        "latency": [float(links.latency[0]) * 1e9],
    }
    config = make_config(system, network, {"memory-type": "NO_MEMORY_EXPANSION"}, None)
    done = simulate(one_sum(case["ranks"], int(case["megabytes"] * 1e6)), config, AstraOptions())
    return float(np.max(done.cycles)) * 1e-9


def coarse_seconds(case: Case, hops: int, seed: int) -> float:
    """Bytes that a rank must send over its link's bandwidth, and the latency of some hops."""
    links, ranks = site(case["topology"], case["ranks"], seed).links, case["ranks"]
    moved = case["megabytes"] * 1e6 * 2 * (ranks - 1) / ranks
    return float(moved / links.bandwidth[0] + hops * links.latency[0])


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """How far a model's time is from the truth."""
    truth = native_seconds(case, seed)
    if setting["model"] == "steps":
        time = astra_seconds(case, setting["detail"], seed)
    else:
        time = coarse_seconds(case, setting["detail"], seed)
    shown = {"agreement": time / truth} if setting["model"] == "steps" else {}
    off = max(GOOD, abs(float(np.log(time / truth))))
    return {"off": off, "accuracy": float(np.exp(-off)), **shown}


def cases(quick: bool) -> Sequence[Case]:
    """From latency-bound to bandwidth-bound messages."""
    sizes = (0.008, 1.0, 1000.0) if quick else (0.001, 0.008, 0.1, 1.0, 10.0, 100.0, 1000.0)
    shapes = [("ring", 8)] if quick else [("ring", 8), ("ring", 16), ("switch", 8)]
    return [{"topology": t, "ranks": n, "megabytes": m} for t, n in shapes for m in sizes]


STUDY = Study(
    id="B13",
    system="ASTRA-sim 3.0",
    family="methodology",
    strength="direction",
    claims=[
        Claim("latency-bound collectives need their steps modelled", 2.0, 2.0, "ours"),
        Claim(
            "one trace, two simulators: equal for large messages",
            0.95,
            1.05,
            "ours",
            figure="agreement",
            where={"megabytes": 1000.0},
        ),
    ],
    rests_on={
        "steps of a collective on routes": "simulator/collectives/algorithms.py",
        "ASTRA-sim's own engine": "simulator/astra/simulation.py",
    },
    cases=cases,
    sides={
        "steps and latencies": [{"model": "steps", "detail": splits} for splits in (1, 4)],
        "bandwidth alone": [{"model": "bandwidth", "detail": hops} for hops in (0, 1)],
    },
    idea="steps and latencies",
    measure=measure,
    better=("off", "min"),
    health="accuracy",
    gone=lambda case: bool(case["megabytes"] >= 1000),
    ablate={"the steps": {"model": "bandwidth", "detail": 1}},
    predictions={
        "the coarse model is off by over 2 times for small messages": lambda t: (
            least(t.figure("off", "bandwidth alone", megabytes=0.008)) - np.log(2)
        ),
        "both are right for large ones": lambda t: 1.02 - most(t.gains(megabytes=1000.0)),
        "two simulators agree within 5 % for large messages": lambda t: (
            0.05 - most(abs(t.figure("agreement", megabytes=1000.0) - 1))
        ),
    },
    cannot_say="Loads and stores of single cache lines, and how a GPU runs a collective. Which of the two "
    "is closer to hardware is in docs/accuracy.md.",
)
