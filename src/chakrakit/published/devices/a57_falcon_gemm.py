"""A57, FalconGEMM: products of large matrices with fewer multiplications, chosen by a model.

One level of Strassen's algorithm is seven products of half the size and eighteen sums of quarters. It was
run on an H200 in four precisions, beside the library's product in one, two or four pieces; fused with the
products, the sums are taken to move half. The simulation knows products from a profile, and sums by what
memory allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from chakrakit.machines import load_machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, seconds_of
from chakrakit.published.devices.measured_products import FUSED, measured_dtypes, measured_seconds
from chakrakit.simulator.engine import Disturbance
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

NOISE = 0.01
"""Standard deviation of a kernel's time from run to run, as measured on an H200 with fixed clocks."""
SUMS = 18
"""Sums of Strassen's first form."""
WAYS = {0: {1: "library", 2: "in 2 pieces", 4: "in 4 pieces"}, 1: {1: "strassen"}}
"""Levels and pieces → what was measured."""
SHAPES = {
    "decode": (16, 8192, 28672),
    "prefill 512": (512, 8192, 28672),
    "prefill 8192": (8192, 8192, 28672),
    "2048": (2048, 2048, 2048),
    "8192": (8192, 8192, 8192),
    "16384": (16384, 16384, 16384),
}
"""Rows, inner side and columns; the first three are the wide layer of Llama 3.1 70B."""


def product(t: TraceBuilder, m: int, k: int, n: int) -> int:
    """A product in bf16."""
    return t.comp(
        "gemm",
        inputs_shapes=f"[[{m},{k}],[{k},{n}]]",
        num_ops=2 * m * n * k,
        tensor_size=2 * (m * k + k * n + m * n),
        dtype="bf16",
        op_type="matmul",
        stream=0,
    )


@cache
def traces(shape: str, levels: int, pieces: int, fused: bool) -> TraceSet:
    """The product as the library does it, in pieces, or with one level of Strassen's algorithm."""
    m, k, n = SHAPES[shape]
    t = TraceBuilder()
    if not levels:
        for _ in range(pieces):
            product(t, m, k, n // pieces)
        return TraceSet.of(t)
    for _ in range(7):
        product(t, m // 2, k // 2, n // 2)
    quarters = (5 * m * k + 5 * k * n + 8 * m * n) / 4  # elements that all sums write
    moved = int(2 * 3 * quarters * (FUSED if fused else 1.0) / SUMS)
    for _ in range(SUMS):
        t.comp(
            "sum", num_ops=moved // 6, tensor_size=moved, dtype="bf16", op_type="vector", stream=0
        )
    return TraceSet.of(t)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a product."""
    m, k, n = SHAPES[case["shape"]]
    device = load_machine("dgx-h200").devices[0]
    size = 4 if case["dtype"].endswith("32") else 2
    wire = size * (m * k + k * n + m * n) / device.memory_bandwidth
    ideal = max(2 * m * k * n / device.peak_rate(case["dtype"]), wire)
    seconds = (
        _simulated(case, setting, seed)
        if case["by"] == "simulation"
        else _measured(case, setting, seed)
    )
    return {"seconds": seconds, "of_the_roofline": ideal / seconds}


def _simulated(case: Case, setting: Setting, seed: int) -> float:
    work = traces(case["shape"], setting["levels"], setting["pieces"], setting["fused"])
    noise = Disturbance(jitter=NOISE, seed=seed)
    return seconds_of(work, load_machine("dgx-h200"), "auto", disturbance=noise)


def _measured(case: Case, setting: Setting, seed: int) -> float:
    way = WAYS[setting["levels"]][setting["pieces"]] + (", fused" if setting["fused"] else "")
    return measured_seconds(case["dtype"], case["shape"], way, seed)


def cases(quick: bool) -> Sequence[Case]:
    """Simulated in bf16, and measured in four precisions."""
    shapes = ("decode", "prefill 8192", "16384") if quick else tuple(SHAPES)
    by = [("simulation", "bf16"), *(("H200", dtype) for dtype in measured_dtypes())]
    return [{"by": source, "dtype": dtype, "shape": s} for source, dtype in by for s in shapes]


def one(levels: int, pieces: int = 1, fused: bool = False) -> Setting:
    """How a product is done."""
    return {"levels": levels, "pieces": pieces, "fused": fused}


STUDY = Study(
    id="A57",
    system="FalconGEMM",
    family="devices",
    strength="direction",
    claims=[Claim("7.59 to 17.85 % faster than libraries", 1.0759, 1.1785)],
    rests_on={
        "times of products, measured": "published/devices/h200_products.json",
        "times of products by shape": "machines/profiles/h200.json",
        "sums that memory bounds": "machines/device/work.py",
    },
    cases=cases,
    sides={
        "FalconGEMM": [one(0), one(1), one(1, fused=True)],
        "library": [one(0, pieces) for pieces in (1, 2, 4)],
    },
    idea="FalconGEMM",
    measure=measure,
    better=("seconds", "min"),
    health="of_the_roofline",
    gone=lambda case: case["shape"] in ("decode", "2048"),
    ablate={"fewer multiplications": {"levels": 0, "fused": False}},
    predictions={
        "only large products switch": lambda t: (
            least(t.gains(shape="16384")) - most(t.gains(shape="2048"))
        ),
        "one level gains at most 8 / 7": lambda t: 8 / 7 + 0.02 - most(t.gains()),
        "nothing is gained where memory bounds": lambda t: 1.02 - most(t.gains(shape="decode")),
    },
    decides="what the sums move against how fast products are: on an H200 in fp32, whose products are slow, "
    "one level gains 8 to 9 % from 8,192 on, and 10 to 11 % if fusing halves the sums; in 16 bits they take "
    "more than seven products save. 17.85 % is beyond one level in any case.",
    amended="cases measured on a GPU were added when the simulated ones had been seen; predictions were not.",
    cannot_say="Kernels that fuse sums and products, whose time is estimated; forms with fewer products.",
)
