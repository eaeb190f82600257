"""A43, a stencil on a Tenstorrent card: start-up and copies over PCIe against iterations that stay there."""

from __future__ import annotations

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.kernels.a41_cstencil import a_point
from chakrakit.published.kernels.bounds import DEVICES, least_seconds

START, PCIE = 0.8, 8e9
"""Seconds until a program runs on the card, and bytes/s of copies: the publication's order of magnitude."""
WATTS = {"CPU": 250.0, "Wormhole": 75.0}
"""Data sheets: two sockets' share, and a card at work."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The least seconds end to end, of the iterations alone, and joules."""
    points = float(case["grid"]) ** 2
    device = setting["device"]
    kernel = least_seconds(a_point().scaled(points), device, seed) * case["iterations"]
    copies = 8 * points / PCIE if device == "Wormhole" else 0.0
    seconds = kernel + copies + (START if device == "Wormhole" else 0.0)
    cpu = least_seconds(a_point().scaled(points), "CPU", seed) * case["iterations"]
    return {
        "seconds": seconds,
        "of_memory": 8 * points * case["iterations"] / DEVICES[device][1] / seconds,
        "cpu_faster": seconds / cpu,
        "energy_ratio": seconds * WATTS[device] / (cpu * WATTS["CPU"]),
    }


STUDY = Study(
    id="A43",
    system="Stencil on Wormhole",
    family="kernels",
    strength="bound",
    claims=[
        Claim(
            "the CPU is 3 times as fast end to end",
            3.0,
            3.0,
            figure="cpu_faster",
            where={"iterations": 1000},
        ),
        Claim(
            "less energy for large inputs", 0.0, 1.0, figure="energy_ratio", where={"grid": 16384}
        ),
    ],
    rests_on={"bytes of a stencil, counted": "operators/counted.py"},
    cases=lambda quick: [
        {"grid": n, "iterations": i}
        for n in ((1024, 16384) if quick else (1024, 8192, 16384))
        for i in ((10, 1000) if quick else (10, 100, 1000))
    ],
    sides={"Wormhole": [{"device": "Wormhole"}], "CPU": [{"device": "CPU"}]},
    idea="Wormhole",
    measure=measure,
    better=("seconds", "min"),
    health="of_memory",
    gone=lambda case: bool(case["iterations"] <= 10 or case["grid"] <= 1024),
    ablate={"a card": {"device": "CPU"}},
    predictions={
        "few iterations lose end to end": lambda t: 1 - most(t.gains(iterations=10)),
        "with a thousand on a large grid the two are within 10 % of each other": lambda t: (
            0.1 - np.abs(t.gains(grid=16384, iterations=1000)[0] - 1)
        ),
        "and the card takes less energy": lambda t: (
            1 - t.figure("energy_ratio", grid=16384, iterations=1000)[0]
        ),
        "the gain grows with the iterations": lambda t: (
            least(t.gains(iterations=1000)) - most(t.gains(iterations=10))
        ),
    },
    decides="bandwidths of 288 and 307 GB/s: kernels take as long, and start-up and copies come on top.",
    amended="the number of iterations at which the claim of 3 times is judged, which is 1,000 now.",
    cannot_say="Kernels as they are written for either; power is that of data sheets.",
)
