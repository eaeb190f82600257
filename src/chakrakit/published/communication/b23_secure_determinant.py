"""B23, secure determinants: a client masks a matrix, servers factorise its blocks, the client checks.

What privacy costs is what is studied: masking and sending before, and checking after, a block LU on servers
that pass panels along. The comparator is the client that does it all by itself.
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


@cache
def site(servers: int, gigabits: float, seed: int) -> Machine:
    """A client and servers on one switch; each a 32-core CPU."""
    device = {
        "name": "server",
        "peak": {"fp64": "1.5 TFLOP/s"},
        "memory": "256 GB",
        "memory_bandwidth": "200 GB/s",
        "compute_efficiency": 0.7,
        "memory_efficiency": 0.8,
        "kernel_overhead": "5 us",
    }
    link = {"bandwidth": f"{gigabits} Gb/s", "latency": "20 us"}
    text = {"device": device, "network": [{"topology": "switch", "size": servers + 1, **link}]}
    return unsure(machine(text), seed)


def factorisation(n: int, servers: int, block: int, masked: bool, at_client: bool) -> TraceSet:
    """The client sends row blocks; panels go from server to server as they are done; factors come back."""
    t = [TraceBuilder() for _ in range(servers + 1)]
    rows = n // servers
    size = 8 * rows * n
    start: list[int] = []
    if masked and at_client:  # a diagonal and a permutation on both sides: every element twice
        start = [kernel(t[0], "mask", 4 * n * n, 32 * n * n, "fp64")]
    first = {}
    for s in range(1, servers + 1):
        t[0].send("rows", 0, s, size, tag=0, deps=start)
        first[s] = t[s].recv("rows", 0, s, size, tag=0)
    done = dict(first)
    panels = n // block
    for p in range(panels):
        owner = 1 + p * servers // panels
        left = n - p * block
        panel = kernel(
            t[owner], "panel", 2 * block * block * left, 8 * block * left, "fp64", [done[owner]]
        )
        done[owner] = panel
        for s in range(owner, servers + 1):
            if s > owner:
                t[owner].send("panel", owner, s, 8 * block * left, tag=1 + p, deps=[panel])
                ready = [t[s].recv("panel", owner, s, 8 * block * left, tag=1 + p), done[s]]
            else:
                ready = [panel]
            share = min(rows, max(0, left - block))
            flops, moved = 2 * block * share * left, 16 * share * left
            done[s] = kernel(t[s], "update", flops, moved, "fp64", ready)
    ends = []
    for s in range(1, servers + 1):
        t[s].send("factors", s, 0, size, tag=10_000, deps=[done[s]])
        ends.append(t[0].recv("factors", s, 0, size, tag=10_000))
    checks = 6 * n * n if masked else n
    kernel(t[0], "check", checks, 8 * checks, "fp64", ends)
    return TraceSet.of(t)


def alone(n: int) -> TraceSet:
    """The client does it all."""
    t = TraceBuilder()
    kernel(t, "lu", 2 / 3 * n**3, 8 * n * n * 4, "fp64")
    return TraceSet.of(t)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds until the client knows the determinant."""
    n, servers = case["size"], case["servers"]
    if setting["where"] == "client":
        traces = alone(n)
    else:
        masked = setting["where"] == "servers, masked"
        traces = factorisation(n, servers, n // setting["panels"], masked, True)
    seconds = seconds_of(traces, site(servers, case["gigabits"], seed))
    plain = seconds
    if setting["where"] == "servers, masked":
        bare = factorisation(n, servers, n // setting["panels"], False, True)
        plain = seconds_of(bare, site(servers, case["gigabits"], seed))
    return {"seconds": seconds, "overhead": seconds / plain, "gflops": n**3 / seconds / 1e9}


def cases(quick: bool) -> Sequence[Case]:
    """Small and large matrices, few and many servers, slow and fast links."""
    sizes = (1024, 4096, 16384) if quick else (1024, 4096, 16384, 32768)
    links = (100,) if quick else (10, 100)
    servers = (4,) if quick else (2, 4, 8)
    return [{"size": n, "servers": s, "gigabits": g} for n in sizes for s in servers for g in links]


PANELS = (16, 32, 64)
STUDY = Study(
    id="B23",
    system="SPDC secure determinant",
    family="communication",
    strength="side cost",
    claims=[Claim("the client is spared work", 1.0, 1.5, "ours", figure="overhead")],
    rests_on={
        "messages between servers": "simulator/engine/messages.py",
        "rates of matrix kernels": "machines/device/work.py",
    },
    cases=cases,
    sides={
        "outsourced, masked": [{"where": "servers, masked", "panels": p} for p in PANELS],
        "on the client": [{"where": "client", "panels": p} for p in PANELS],
    },
    idea="outsourced, masked",
    measure=measure,
    better=("seconds", "min"),
    health="gflops",
    gone=lambda case: bool(case["size"] <= 1024),
    ablate={"the servers": {"where": "client"}},
    predictions={
        "masking and checking add less than half": lambda t: 1.5 - most(t.figure("overhead")),
        "outsourcing pays for the largest matrices on fast links": lambda t: (
            least(t.gains(size=16384, gigabits=100, servers=4)) - 1.02
        ),
        "it does not pay for small ones": lambda t: 1.02 - most(t.gains(size=1024)),
    },
    cannot_say="Whether the masks hide what they should, which is a matter of proof.",
)
