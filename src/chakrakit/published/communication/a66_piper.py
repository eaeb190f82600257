"""A66, Piper: an all-to-all in two stages, within nodes and along rails, against a flat one.

Every rank of a flat all-to-all of n ranks sends n - 1 messages, of which most leave the node; in two stages
it sends one to each neighbour and then one to each node, each as large as all it carries. Bytes are the same
outside and more inside; what is saved are messages, each of which costs something at a port.
"""

from __future__ import annotations

from functools import cache

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
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

WIDTH = 8
"""GPUs of a node: two GCDs on each of four MI250X of Frontier, where the publication measured."""
MESSAGES = {"gap": "241 ns"}
"""At a network port: what each further peer adds to the one-sided exchange of TensorRT-LLM on GB200, fitted
on 2 and 32 GPUs (benchmarks/fit_messages.py). Nothing is published of Slingshot."""


@cache
def site(ranks: int, seed: int) -> Machine:
    """Nodes of eight devices with four ports of 200 Gb/s, so that two share one, on a dragonfly-like tree.

    Slingshot spreads packets over its ways as they are used; ways by the digits of the destination spread
    the regular traffic of an exchange as evenly.
    """
    nodes = ranks // WIDTH
    arity = [nodes] if nodes <= 16 else [16, nodes // 16]
    inside = {"topology": "switch", "size": WIDTH, "bandwidth": "50 GB/s", "latency": "1 us"}
    outside = {
        "topology": "fat-tree",
        "arity": arity,
        "oversubscription": 1.0 if nodes <= 16 else 2.0,
        "bandwidth": "100 Gb/s",
        "latency": "1.5 us",
        "routing": "modulo",
        "messages": MESSAGES,
    }
    software = {"collective_overhead": "10 us", "step_overhead": "1 us"}
    text = {"device": {"name": "mi250x-gcd"}, "network": [inside, outside], "software": software}
    return unsure(machine(text), seed)


@cache
def traces(ranks: int, size: int, staged: bool) -> TraceSet:
    """One exchange of `size` bytes a rank."""
    t = TraceBuilder()
    last: list[int] = []
    for group in ("inside", "outside") if staged else ("all",):
        last = [
            t.collective(
                "exchange", CollectiveType.ALL_TO_ALL, size, pg_name=group, stream=1, deps=last
            )
        ]
    groups = {"all": list(range(ranks))}
    for rank in range(ranks):
        groups.setdefault(f"inside{rank // WIDTH}", []).append(rank)
        groups.setdefault(f"outside{rank % WIDTH}", []).append(rank)
    bindings = {
        r: Binding(0, {"inside": f"inside{r // WIDTH}", "outside": f"outside{r % WIDTH}"})
        for r in range(ranks)
    }
    return TraceSet([t.build()], bindings, Groups(groups))


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of an exchange, and its bandwidth as a share of what the ports could do."""
    ranks, size = case["ranks"], case["kib"] << 10
    work = traces(ranks, size, setting["staged"])
    how = {"all-to-all": setting["algorithm"]}
    seconds = seconds_of(work, site(ranks, seed), "measured", how)
    leaves = size * (ranks - WIDTH) / ranks
    return {"seconds": seconds, "of_the_port": max(leaves, size / ranks) / 12.5e9 / seconds}


ALGORITHMS = ("direct", "pairwise")
STUDY = Study(
    id="A66",
    system="Piper (experts on HPC systems)",
    family="communication",
    strength="strong",
    claims=[
        Claim(
            "all-to-all with 1.2 to 9 times the vendor's bandwidth, at scale",
            1.2,
            9.0,
            where={"ranks": 256, "kib": 64},
        ),
        Claim("2 to 3.5 times the MFU of X-MoE", 2.0, 3.5, kind="not simulable", figure="mfu"),
    ],
    rests_on={
        "what a message costs at a port": "machines/fabric/ports.py",
        "links that are shared, and routes of a tree": "machines/fabric/fabrics.py",
    },
    cases=lambda quick: [
        {"ranks": n, "kib": k}
        for n in ((8, 64) if quick else (8, 16, 64, 256, 1024))
        for k in ((64, 65536) if quick else (64, 1024, 65536))
    ],
    sides={
        "two stages": [{"staged": True, "algorithm": a} for a in ALGORITHMS],
        "flat": [{"staged": False, "algorithm": a} for a in ALGORITHMS],
    },
    idea="two stages",
    measure=measure,
    better=("seconds", "min"),
    health="of_the_port",
    gone=lambda case: bool(case["ranks"] == 8),
    ablate={"two stages": {"staged": False}},
    predictions={
        "small exchanges of 64 ranks and more gain 1.2 at least": lambda t: (
            least(t.gains(ranks=64, kib=64)) - 1.2
        ),
        "the gain grows with the ranks": lambda t: (
            least(t.gains(ranks=1024, kib=64)) - most(t.gains(ranks=16, kib=64))
        ),
        "exchanges of 64 MiB among 64 ranks do not gain": lambda t: (
            1.02 - most(t.gains(ranks=64, kib=65536))
        ),
        "nothing is gained within a node": lambda t: 1.02 - most(t.gains(ranks=8)),
    },
    decides="messages of a rank (n - 1, or 7 + n / 8) times what one costs at a port; beyond 64 ranks both "
    "are extrapolated: the crossover there is a prediction and was measured by nobody here.",
    amended="what a message costs was set to the fitted 241 ns before the first run. The ablation of that "
    "cost was dropped for time. The claim is judged at 256 ranks and 64 KiB since a check with swapped "
    "labels had failed. After results without 1,024 ranks had been seen, traffic was spread evenly over "
    "the ways, as this network does, instead of by a hash, with which the million messages of a flat "
    "exchange of 1,024 ranks end one by one, and those cases were added again.",
    cannot_say="MPI's matching, and congestion that a fluid model does not see; the MFU needs X-MoE itself.",
)
