"""A32, CNN inference split over networked microcontrollers: by kernel within layers, not between them.

One microcontroller cannot hold the largest activations of MobileNetV2. Cut between layers, whoever has the
largest layer still must hold it. Cut by kernel, every device makes a part of each layer's channels and they
gather what the next layer needs: the peak falls, and messages grow with the devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.tools import seconds_of, unsure
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.spatial import SpatialPlan, generate_spatial, network_named

CONTROLLER = {
    "name": "cortex-m7",
    "peak": {"int8": 1.2e9},
    "memory": 1 << 20,
    "memory_bandwidth": 1e9,
}
"""600 MHz and two operations of a multiply-add each, as a Cortex-M7 has by its data sheet; 1 MiB of RAM."""
LINKS = {"serial": (1.25e6, 1e-3), "ethernet": (12.5e6, 1e-4)}
"""Bytes/s and seconds of a message: 10 and 100 Mb/s."""


@cache
def job(split: str, ranks: int, image: int) -> TraceSet:
    """MobileNetV2 in 8 bits; weights are read from flash and are not in RAM."""
    plan = SpatialPlan(split=split, columns=ranks, dtype="int8", element=1)  # type: ignore[arg-type]
    return generate_spatial(network_named("mobilenet-v2", image), plan)


def peak(traces: TraceSet) -> int:
    """The most bytes of activations that a device holds."""
    peaks = []
    for rank in traces.ranks:
        trace = traces.trace(rank)
        held, freed = trace.column("mem_alloc", 0), trace.column("mem_free", 0)
        peaks.append(int((np.cumsum(held - freed) + freed).max()))
    return max(peaks)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Kilobytes of RAM, how many copies of that fit a MiB, and the seconds of an image."""
    bandwidth, latency = LINKS[case["link"]]
    level = {
        "topology": "switch", "size": max(2, case["ranks"]), "bandwidth": bandwidth, "latency": latency,
    }  # fmt: skip
    traces = job(setting["split"], case["ranks"], case["image"])
    site = unsure(machine({"device": CONTROLLER, "network": [level]}), seed)
    held = peak(traces)
    took = seconds_of(traces, site)
    return {"ram": held / 1e3, "fits": (1 << 20) / held, "seconds": took}


def cases(quick: bool) -> Sequence[Case]:
    """One to eight controllers on slow and fast links, and a small image."""
    ranks = (1, 2, 8) if quick else (1, 2, 4, 8)
    links = ("ethernet",) if quick else tuple(LINKS)
    return [{"ranks": n, "link": k, "image": 224} for k in links for n in ranks]


STUDY = Study(
    id="A32",
    system="Split CNN on MCUs",
    family="training",
    strength="direction",
    claims=[
        Claim("less RAM than cutting between layers", 1.02, 8.0),
        Claim(
            "what one device cannot hold, several can", 1.0, 8.0, figure="fits", where={"ranks": 8}
        ),
    ],
    rests_on={
        "layers with their activations": "workloads/spatial/windows.py",
        "channels over ranks, gathered where needed": "workloads/spatial/cutting.py",
    },
    cases=cases,
    sides={"by kernel": [{"split": "channels"}], "by layer": [{"split": "layers"}]},
    idea="by kernel",
    measure=measure,
    better=("ram", "min"),
    health="fits",
    gone=lambda case: bool(case["ranks"] == 1),
    ablate={"splitting within layers": {"split": "layers"}},
    predictions={
        "one device cannot hold it": lambda t: 1 - most(t.figure("fits", ranks=1)),
        "cutting between layers never fits": lambda t: 1 - most(t.figure("fits", "by layer")),
        "eight devices are faster than two on fast links": lambda t: least(
            t.figure("seconds", ranks=2, link="ethernet")
            - t.figure("seconds", ranks=8, link="ethernet")
        ),
    },
    decides="what the next layer needs of all channels, which every device gathers and must hold.",
    cannot_say="The real firmware's buffers, and energy.",
)
