"""A01, CG and Cholesky on a CPU and a GPU at once, against the GPU alone.

Rows of a sparse matrix (CG) or columns of the trailing matrix (Cholesky) are split between the two; the share
of the CPU is the idea's choice, tiles are the GPU's. An iteration of CG is bound by memory and exchanges the
boundary and two sums over PCIe; a step of Cholesky is bound by arithmetic and sends its panel.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, seconds_of
from chakrakit.published.devices.two_devices import SYSTEMS, cholesky, conjugate_gradients, site


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of ten iterations, or of a factorisation, and the share of the GPU's peak that is."""
    if case["solver"] == "CG":
        traces = conjugate_gradients(case["size"], setting["share"])
    else:
        traces = cholesky(case["size"], setting["share"], setting["tile"])
    seconds = seconds_of(traces, site(case["system"], seed))
    gpu, cells = SYSTEMS[case["system"]][0], case["size"] ** 3
    ideal = (
        10 * 164 * cells / (gpu[1] * 1e9) if case["solver"] == "CG" else cells / 3 / (gpu[0] * 1e12)
    )
    return {"seconds": seconds, "of_the_gpu": ideal / seconds}


def cases(quick: bool) -> Sequence[Case]:
    """Small and large systems of equations on three vendors' machines, and beside a weak CPU."""
    sizes = {"CG": (32, 256), "Cholesky": (1024, 16384)}
    found = [
        {"solver": solver, "size": size, "system": system}
        for system in SYSTEMS
        for solver, both in sizes.items()
        for size in both
    ]
    return [c for c in found if c["system"] == "NVIDIA"] if quick else found


SHARES = (0.1, 0.15, 0.2, 0.25, 0.3)
TILES = (128, 256, 512, 1024, 2048)
STUDY = Study(
    id="A01",
    system="CG and Cholesky on CPU and GPU at once",
    family="devices",
    strength="direction",
    claims=[
        Claim("CG up to 32 % faster than on the GPU alone", 1.32, 1.32, where={"solver": "CG"}),
        Claim("Cholesky up to 29 % faster", 1.29, 1.29, where={"solver": "Cholesky"}),
    ],
    rests_on={
        "memory bandwidth and arithmetic of both": "machines/device/work.py",
        "messages over PCIe": "simulator/engine/messages.py",
    },
    cases=cases,
    sides={
        "CPU and GPU": [{"share": share, "tile": 512} for share in SHARES],
        "GPU alone": [{"share": 0.0, "tile": tile} for tile in TILES],
    },
    idea="CPU and GPU",
    measure=measure,
    better=("seconds", "min"),
    health="of_the_gpu",
    gone=lambda case: bool(case["size"] in (32, 1024) or case["system"] == "weak CPU"),
    ablate={"the CPU": {"share": 0.0}},
    predictions={
        "nothing is gained for small matrices": lambda t: (
            1.02 - most(t.gains(size=lambda n: n in (32, 1024)))
        ),
        "nothing is gained beside a weak CPU": lambda t: 1.02 - most(t.gains(system="weak CPU")),
        "Cholesky gains at least 12 % on all vendors": lambda t: (
            least(t.gains(solver="Cholesky", size=16384, system=lambda s: s != "weak CPU")) - 1.12
        ),
        "CG gains about the ratio of the bandwidths": lambda t: (
            0.1 - abs(most(t.gains(solver="CG", size=256, system="NVIDIA")) - (1 + 380 / 1555))
        ),
    },
    decides="the ratio of the CPU's bandwidth (CG) or arithmetic (Cholesky) to the GPU's, less waiting.",
    cannot_say="Kernels of real libraries and SYCL's overheads; caches that hold a part of the matrix.",
)
