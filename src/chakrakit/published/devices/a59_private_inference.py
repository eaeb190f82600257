"""A59, private inference at the edge: how the response time of three ways depends on the bandwidth.

With noise (DP) a request is computed as it is. With shares (SMC) two servers compute every layer on 64-bit
shares and exchange masked inputs, and what an activation needs, in rounds. With encryption (FHE) one server
computes a thousand times as long, which is the publication's own figure. The idea is a link of twice the
bandwidth; the comparator has the link as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Setting,
    Study,
    kernel,
    least,
    most,
    seconds_of,
    unsure,
)
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

NETWORKS = {
    "alexnet": [
        *((150_528, 211e6, 290_400), (69_984, 448e6, 186_624), (43_264, 299e6, 64_896)),
        *((64_896, 224e6, 64_896), (64_896, 150e6, 43_264), (9_216, 75e6, 4_096)),
        *((4_096, 34e6, 4_096), (4_096, 8e6, 0)),
    ],
    "lenet": [(784, 0.24e6, 4_704), (1_176, 0.48e6, 1_600), (400, 0.1e6, 120), (120, 0.02e6, 0)],
}
"""Inputs, FLOPs and activations of every layer."""
RATE = 60e9
"""FLOP/s that a few cores reach."""
SHARE = 8
"""Bytes of a 64-bit share."""
ROUNDS, ROUND_BYTES = 8, 16
"""Of the comparison inside an activation: log2(64) rounds and two conversions, two shares an element each."""
FACTORS = {"dp": 1.0, "smc": 3.0, "fhe": 1000.0}
"""Work against plain work: on shares two products and a sum, on ciphertexts as published."""


@cache
def site(megabits: float, milliseconds: float, seed: int) -> Machine:
    """Two edge servers of a few cores."""
    device = {"name": "edge server", "peak": {"fp32": RATE}, "memory_bandwidth": "30 GB/s"}
    link = {"bandwidth": f"{megabits} Mb/s", "latency": f"{milliseconds / 2} ms"}
    return unsure(
        machine({"device": device, "network": [{"topology": "line", "size": 2, **link}]}), seed
    )


def exchanged(layer: tuple[int, float, int]) -> list[int]:
    """Bytes of every round of a layer on shares: masked inputs, then what its activation compares."""
    inputs, _, activations = layer
    return [2 * SHARE * inputs] + [ROUND_BYTES * activations] * (ROUNDS if activations else 0)


def inference(network: str, method: str) -> TraceSet:
    """All layers on one server, or on both with what they exchange."""
    servers = [TraceBuilder(), TraceBuilder()]
    last: list[list[int]] = [[], []]
    tag = 0
    for layer in NETWORKS[network]:
        for size in exchanged(layer) if method == "smc" else ():
            last = _exchange(servers, last, size, tag)
            tag += 1
        work, moved = FACTORS[method] * layer[1], 4 * layer[0]
        for rank, t in enumerate(servers[: 2 if method == "smc" else 1]):
            last[rank] = [kernel(t, "layer", work, moved, "fp32", last[rank])]
    if method != "smc":
        kernel(servers[1], "idle", 1, 1, "fp32")
    return TraceSet.of(servers)


def _exchange(
    servers: list[TraceBuilder], after: list[list[int]], size: int, tag: int
) -> list[list[int]]:
    """Each server sends the other its part, and waits for the other's."""
    for rank, t in enumerate(servers):
        t.send("shares", rank, 1 - rank, size, tag=tag, deps=after[rank])
    return [[t.recv("shares", 1 - rank, rank, size, tag=tag)] for rank, t in enumerate(servers)]


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a response."""
    speed = case["megabits"] * setting["faster"]
    traces = inference(case["network"], case["method"])
    seconds = seconds_of(traces, site(speed, case["rtt_ms"], seed))
    plain = seconds_of(inference(case["network"], "dp"), site(speed, case["rtt_ms"], seed))
    layers = NETWORKS[case["network"]]
    ideal = sum(layer[1] for layer in layers) * FACTORS[case["method"]] / RATE
    if case["method"] == "smc":
        ideal += sum(sum(exchanged(layer)) for layer in layers) * 8e-6 / speed
    return {"seconds": seconds, "over_dp": seconds / plain, "efficiency": ideal / seconds}


def cases(quick: bool) -> Sequence[Case]:
    """All methods at 250 Mb/s, shares also on short and long ways and on a link of 25 Gb/s."""
    base = {"network": "alexnet", "method": "smc", "megabits": 250, "rtt_ms": 10}
    found = [base, {**base, "method": "dp"}, {**base, "megabits": 25_000}]
    if quick:
        return found
    found += [{**base, "rtt_ms": r} for r in (1, 40)] + [{**base, "method": "fhe"}]
    return found + [{**base, "network": "lenet", "method": m} for m in ("smc", "dp", "fhe")]


STUDY = Study(
    id="A59",
    system="Privacy-preserving learning at the edge",
    family="devices",
    strength="side cost",
    claims=[
        Claim("from 250 to 500 Mb/s the latency of AlexNet falls by 30 %", 1 / 0.7, 1 / 0.7),
        Claim("FHE takes about 1000 times as long as DP", 500, 1000, "calibrated"),
        Claim("accuracy falls by up to 35 %", 0.35, 0.35, "not simulable"),
    ],
    rests_on={
        "latency and bandwidth of messages": "simulator/engine/messages.py",
        "rates of small servers": "machines/device/work.py",
    },
    cases=cases,
    sides={"twice the bandwidth": [{"faster": 2}], "as it is": [{"faster": 1}]},
    idea="twice the bandwidth",
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["method"] != "smc" or case["megabits"] > 1000),
    ablate={"the bandwidth": {"faster": 1}},
    predictions={
        "doubling the bandwidth cuts the latency of shares by 30 %": lambda t: (
            most(t.gains(network="alexnet", method="smc", megabits=250)) - 1 / 0.7
        ),
        "nothing is gained with noise": lambda t: 1.02 - most(t.gains(method="dp")),
        "little is gained on fast links": lambda t: 1.02 - most(t.gains(megabits=25_000)),
        "short ways gain more than long ones": lambda t: (
            least(t.gains(rtt_ms=1)) - most(t.gains(rtt_ms=40))
        ),
    },
    decides="rounds: on 25 Gb/s all but 4 % of the time is round trips, which a wider link does not shorten.",
    cannot_say="Accuracy and what an attacker can extract; the cost of encryption, which is an input.",
)
