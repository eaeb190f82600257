"""B19, resource-aware overlap: room left on the device, and priority, for communication beside compute.

A collective beside a compute kernel is starved of multiprocessors. The device is the simulator's, whose rules
were measured on an H200 (docs/simulator.md): a collective holds its share from start to end; kernels of its
own priority that came before are in its way until their last wave has begun, those of lower priority give up
room between two waves. Plain overlap may launch the collective first where nothing stands against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, most, seconds_of, unsure
from chakrakit.simulator.engine import with_bandwidth
from chakrakit.trace.model import CollectiveType, EdgeForm, EdgeKind, TraceBuilder
from chakrakit.trace.sets import TraceSet

RANKS, BANDWIDTH = 8, 100e9
COMPUTE_NS, EVENT_NS = 8_000_000, 5_000
"""Compute of a step alone on the device; from a kernel's end to what waits for it on another stream."""
SATURATES = 0.15
"""The share of a device's multiprocessors with which communication fills its links: 20 of an H100's 132."""


@cache
def site(share: float, seed: int) -> Machine:
    """One switch, with links as fast as the multiprocessors that feed them."""
    level = {"topology": "switch", "size": RANKS, "bandwidth": BANDWIDTH, "latency": "500 ns"}
    plain = machine({"network": [level], "software": {"collective_overhead": "10 us"}})
    return with_bandwidth(unsure(plain, seed), min(1.0, share / SATURATES))


def step(case: Case, setting: Setting) -> TraceSet:
    """`beside` is one collective beside one kernel, `backward` a bucket after each of eight layers."""
    t = TraceBuilder()
    layers = 8 if case["workload"] == "backward" else 1
    moved = case["ratio"] * COMPUTE_NS * 1e-9 * BANDWIDTH / (2 * (RANKS - 1) / RANKS) / layers
    sums = collective(t, setting, int(moved), None) if setting["first"] else []
    for _ in range(layers):
        for _ in range(case["kernels"]):
            last = t.comp(
                "gemm",
                duration_ns=COMPUTE_NS // layers // case["kernels"],
                stream=1,
                waves=case["waves"],
                device_share=setting["occupancy"],
            )
        if not setting["first"]:
            sums += collective(t, setting, int(moved), last if layers > 1 else None)
    t.comp("optimizer", duration_ns=1000, stream=1, deps=sums)
    return TraceSet.of(t, ranks=RANKS)


def collective(t: TraceBuilder, setting: Setting, size: int, after: int | None) -> list[int]:
    """In as many pieces as the side likes."""
    nodes = []
    for _ in range(setting["pieces"]):
        share, priority = setting["share"], setting["priority"]
        kind, part = CollectiveType.ALL_REDUCE, size // setting["pieces"]
        more = {"stream": 2, "device_share": share, "comm_priority": priority}
        node = t.collective("sum", kind, part, **more)
        if after is not None:
            t.edge(after, node, EdgeKind.EVENT, form=EdgeForm.FINISH_START, lag_ns=EVENT_NS)
        nodes.append(node)
    return nodes


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds until all is done; a collective that needs what comes before cannot go first."""
    if setting["first"] and case["workload"] == "backward":
        return {"seconds": float("inf"), "rate": 0.0}
    ring = {"all-reduce": "ring"}
    seconds = seconds_of(step(case, setting), site(setting["share"], seed), "measured", ring)
    alone = COMPUTE_NS * 1e-9 * (1 + case["ratio"])
    return {"seconds": seconds, "rate": alone / seconds}


def one(
    priority: int, occupancy: float, share: float = 0.15, pieces: int = 1, first: bool = False
) -> Setting:
    """How communication shares the device with compute."""
    names = ("priority", "occupancy", "share", "pieces", "first")
    return dict(zip(names, (priority, occupancy, share, pieces, first), strict=True))


def cases(quick: bool) -> Sequence[Case]:
    """Balance of communication and compute, kernels a layer, and waves of a kernel."""
    if quick:
        shapes = [("beside", 1.0, 1, 16), ("backward", 1.0, 1, 4), ("backward", 1.0, 16, 4)]
    else:
        shapes = [("beside", r, 1, w) for r in (0.2, 1.0, 5.0) for w in (1, 4, 16)]
        shapes += [("backward", r, k, 4) for r in (0.2, 1.0, 2.0) for k in (1, 4, 16)]
    return [dict(zip(("workload", "ratio", "kernels", "waves"), s, strict=True)) for s in shapes]


LIMITS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7)
WAYS = [(share, pieces) for share in (0.1, 0.15, 0.2) for pieces in (1, 4)]
STUDY = Study(
    id="B19",
    system="Resource-aware overlap",
    family="communication",
    strength="strong",
    claims=[Claim("total time up to 25.5 % less", 1 / 0.745, 1 / 0.745)],
    rests_on={
        "multiprocessors that kernels share, and priority": "simulator/engine/native.py",
        "collectives that hold a share of the device": "simulator/engine/program.py",
    },
    cases=cases,
    sides={
        "both": [one(1, limit) for limit in LIMITS],
        "plain overlap": [one(0, 1.0, *way) for way in WAYS],
        "launched first": [one(0, 1.0, *way, first=True) for way in WAYS],
        "priority alone": [one(1, 1.0)],
        "room alone": [one(0, limit) for limit in LIMITS],
    },
    idea="both",
    untuned=["priority alone", "room alone"],
    measure=measure,
    better=("seconds", "min"),
    health="rate",
    gone=lambda case: bool(case["kernels"] >= 16),
    ablate={"priority and room": {"priority": 0, "occupancy": 1.0}},
    predictions={
        "launching first is as good as anything beside one kernel": lambda t: (
            1.02 - most(t.gains("launched first", workload="beside"))
        ),
        "priority alone gets nearly all with many waves": lambda t: (
            1.02 - most(t.gains("priority alone", workload="beside", waves=16))
        ),
        "room alone gains nothing": lambda t: (
            1.01 - most(t.gains("plain overlap") / t.gains("room alone"))
        ),
        "the most is under a half": lambda t: 2 - most(t.gains("plain overlap")),
        "with many short kernels nothing is left": lambda t: 1.02 - most(t.gains(kernels=16)),
    },
    decides="what plain overlap may do: a collective that can be launched first needs neither control, and "
    "in a backward pass it waits for the end of a kernel at most.",
    cannot_say="Contention for memory and caches; kernels whose speed does not follow their occupancy.",
)
