"""A67, Buddy: messages that a program routes are handed to the cores of a network card.

A host's cores compute and route messages in turn. Given to the card (a unit of eight slower cores), routing
no longer takes the host's time, but its bytes pass the host's memory again, and the host hands every batch
over. The comparator gives some of its own cores to routing instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any

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
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

CORES, CARD, BANDWIDTH = 32, 8, 200e9
"""Cores of the host, cores of a BlueField-3 (half as fast each: 16 of 2 GHz at half the width), and GB/s."""
RATE = 4e9
"""Operations of a core in a second: memory-bound code, two a cycle at 2 GHz."""
BATCHES = 32


@cache
def site(seed: int, given: int) -> Machine:
    """A host with a card; `given` of its cores route."""
    units = {
        "cores": {"peak": {"fp64": (CORES - given) * RATE}},
        "card": {"peak": {"fp64": CARD * RATE / 2}, "bandwidth": "30 GB/s"},
        "routing": {"peak": {"fp64": max(1, given) * RATE}},
    }
    device = {
        "name": "host",
        "peak": {"fp64": CORES * RATE},
        "memory_bandwidth": BANDWIDTH,
        "units": units,
    }
    level = {"topology": "switch", "size": 1, "bandwidth": 25e9}
    return unsure(machine({"device": device, "network": [level]}), seed)


@cache
def traces(routed: float, where: str) -> TraceSet:
    """Batches of work; the share `routed` of all operations routes what the batch before left."""
    t = TraceBuilder()
    each = 1e9
    before: list[int] = []
    for _ in range(BATCHES):
        flops, moved = each * (1 - routed), 0.8 * each * (1 - routed)
        size: dict[str, Any] = {"num_ops": int(flops), "tensor_size": int(moved), "dtype": "fp64"}
        work = t.comp("work", **size, unit="cores", deps=before)
        last = [work]
        if where == "card":  # handing over takes a hundredth of the routing
            hand = int(each * routed * 0.01)
            last = [
                t.comp(
                    "hand over", num_ops=hand, tensor_size=64, dtype="fp64", unit="cores", deps=last
                )
            ]
        extra = 2 if where == "card" else 1  # written to memory for the card, and read by it
        route: dict[str, Any] = {
            "num_ops": int(each * routed),
            "tensor_size": int(0.4 * each * routed * extra),
        }
        t.comp("route", **route, dtype="fp64", unit=where, deps=last)
        before = last
    return TraceSet.of(t)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of all batches, and the share of the time in which the host's cores could have worked."""
    where = setting["where"]
    seconds = seconds_of(traces(case["routed"], where), site(seed, setting["given"]))
    return {"seconds": seconds, "of_the_host": BATCHES * 1e9 / (CORES * RATE) / seconds}


STUDY = Study(
    id="A67",
    system="Buddy",
    family="communication",
    strength="direction",
    claims=[
        Claim("up to 1.55 times as fast where the host dominates", 1.55, 1.55),
        Claim("625 times the traffic to memory", 625, 625, kind="not simulable", figure="traffic"),
    ],
    rests_on={"a card's cores that share the host's memory": "machines/device/units.py"},
    cases=lambda quick: [
        {"routed": r} for r in ((0.02, 0.1, 0.5) if quick else (0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
    ],
    sides={
        "on the card": [{"where": "card", "given": 0}],
        "on the host, tuned": [
            {"where": "cores", "given": 0},
            *({"where": "routing", "given": g} for g in (1, 2, 4, 8, 16)),
        ],
    },
    idea="on the card",
    measure=measure,
    better=("seconds", "min"),
    health="of_the_host",
    gone=lambda case: bool(case["routed"] >= 0.5 or case["routed"] <= 0.01),
    ablate={"a card": {"where": "cores"}},
    predictions={
        "a tenth of routing gains over the host alone": lambda t: least(t.gains(routed=0.1)) - 1.02,
        "where routing dominates the card loses": lambda t: 1 - most(t.gains(routed=0.5)),
        "the gain is at most what a card of an eighth of the host adds": lambda t: (
            1.15 - most(t.gains())
        ),
    },
    decides="the card's eight half-speed cores do an eighth of the host's work: routing up to an eighth of "
    "all is free, and more of it makes the card the slower of the two.",
    amended="the order of nodes in the trace was mended, the comparator may also route in turn with its "
    "work, and two predictions were reworded.",
    cannot_say="Direct cache access, whose loss the publication measured, and applications of real programs.",
)
