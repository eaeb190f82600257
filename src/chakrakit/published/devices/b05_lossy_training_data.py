"""B05, lossy compression of training data: fewer bytes to load, decoded on the device, and the same training.

A step loads its batch from shared storage and computes; the next batch is loaded meanwhile. Compression
divides the bytes and adds a decoding kernel. The comparator is the same storage without compression, with a
prefetch as deep as it likes.
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
from chakrakit.trace.model import NodeType, TraceBuilder
from chakrakit.trace.sets import TraceSet

RANKS, STEPS = 16, 12
BATCH = 4e9
"""Bytes of a rank's batch: samples of simulations are large (512³ cells in double precision are 1 GB)."""
SERVER = 10e9
"""Bytes a second of a storage server."""
DECODER = 100e9
"""Bytes a second out of an error-bounded decoder on a GPU; cuSZ and its successors reach 50 to 300 GB/s."""


@cache
def site(seed: int) -> Machine:
    """Two nodes of eight, and four storage servers behind the same switch."""
    levels = [
        {"topology": "switch", "size": 8, "bandwidth": "450 GB/s", "latency": "1 us"},
        {"topology": "switch", "size": 6, "bandwidth": "25 GB/s", "latency": "3 us"},
    ]
    remote = {"kind": "remote", "nodes": [2, 3, 4, 5], "bandwidth": SERVER, "latency": "1 ms"}
    return unsure(machine({"network": levels, "storage": {"files": remote}}), seed)


def training(compute_s: float, ratio: float, ahead: int) -> TraceSet:
    """Steps that wait for their batch; loading runs up to `ahead` steps before."""
    t = TraceBuilder()
    loads: list[int] = []
    steps: list[int] = []
    for number in range(STEPS):
        waits = loads[-1:] + (steps[number - ahead : number - ahead + 1] if number >= ahead else [])
        size = int(BATCH / ratio)
        kind = NodeType.MEM_LOAD_NODE
        loads.append(t.node("batch", kind, storage="files", tensor_size=size, stream=1, deps=waits))
        ready = loads[-1]
        if ratio > 1:
            decoding = round(BATCH / DECODER * 1e9)
            ready = t.comp("decode", duration_ns=decoding, stream=0, deps=[ready])
        steps.append(t.comp("step", duration_ns=int(compute_s * 1e9), stream=0, deps=[ready]))
    return TraceSet.of(t, ranks=RANKS)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, and how many times fewer bytes are stored."""
    rng = np.random.default_rng([seed, 5])
    compute = case["compute_s"] * float(np.exp(0.02 * rng.standard_normal()))
    ratio = case["ratio"] if setting["compressed"] else 1.0
    seconds = seconds_of(training(compute, ratio, setting["ahead"]), site(seed), "measured") / STEPS
    loading = 8 * BATCH / ratio / SERVER  # the ranks of a node use one server
    return {"seconds": seconds, "of_its_bound": max(compute, loading) / seconds, "smaller": ratio}


def cases(quick: bool) -> Sequence[Case]:
    """From storage-bound to compute-bound, with the ratios of the publication and one in between."""
    if quick:
        return [{"compute_s": c, "ratio": 23.7} for c in (0.1, 1.0, 10.0)]
    return [
        {"compute_s": c, "ratio": r} for c in (0.1, 0.5, 1.0, 3.0, 10.0) for r in (4.0, 23.7, 39.0)
    ]


def bound(compute_s: float) -> float:
    """The most that fewer bytes can give: nothing was loaded beside compute before, and everything is now."""
    return (8 * BATCH / SERVER + compute_s) / max(compute_s, BATCH / DECODER)


AHEAD = (1, 2, 4)
STUDY = Study(
    id="B05",
    system="Lossy compression of training data",
    family="devices",
    strength="bound",
    claims=[
        Claim("training up to 3 times as fast", 3.0, 3.0),
        Claim("23.7 and 39 times less storage", 23.7, 39.0, "calibrated", figure="smaller"),
        Claim("surrogates as good as with exact data", 1.0, 1.0, "not simulable"),
    ],
    rests_on={
        "storage that ranks share": "simulator/engine/stored.py",
        "loading beside compute": "simulator/engine/native.py",
    },
    cases=cases,
    sides={
        "compressed": [{"compressed": True, "ahead": a} for a in AHEAD],
        "plain": [{"compressed": False, "ahead": a} for a in AHEAD],
    },
    idea="compressed",
    measure=measure,
    better=("seconds", "min"),
    health="of_its_bound",
    gone=lambda case: bool(case["compute_s"] >= 10),
    ablate={"fewer bytes": {"compressed": False}},
    predictions={
        "the gain is at most (load + compute) / max(compute, decoding)": lambda t: least(
            np.stack([bound(c["compute_s"]) - t.gains(**c)[0] for c in t.cases])
        ),
        "with 1 s of compute, 39 times fewer bytes give hardly more than 4 times fewer": lambda t: (
            1.2
            - most(t.gains(compute_s=1.0, ratio=39.0)) / least(t.gains(compute_s=1.0, ratio=4.0))
        ),
        "no gain where compute takes longer than loading": lambda t: (
            1.02 - most(t.gains(compute_s=10.0))
        ),
    },
    decides="the first batch, which nothing hides: one of twelve steps waits for storage, and compression "
    "shortens that wait by 3 s of 120.",
    cannot_say="The quality of what is trained, and ratios, which are the publication's.",
)
