"""B12, TileFuse: packed weights that are unpacked inside the product on an NPU, instead of before it.

The NPU's matrix unit multiplies in BF16; its vector unit turns 4-bit weights into BF16. Fused, both work on
the same tiles and only packed weights are read; apart, the unpacked weights are written and read again.
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

MATRIX, VECTOR, BANDWIDTH = 25e12, 1.6e12, 90e9
"""XDNA 2: half of its 50 TOPS in INT8 for BF16 (AMD), 32 tiles of a vector of 16 lanes at 1.6 GHz twice (an
estimate), and what one client gets of 120 GB/s of LPDDR5X-7500 (an estimate)."""
UNPACK = 2
"""Operations for a weight: a shift with a mask, and a product with its scale."""
SIDE = 4096


@cache
def site(seed: int) -> Machine:
    """The NPU with its two units."""
    units = {
        "matrix": {"peak": {"bf16": MATRIX}},
        "vector": {"peak": {"fp32": VECTOR, "bf16": VECTOR}},
    }
    device = {
        "name": "xdna2",
        "peak": {"bf16": MATRIX},
        "memory_bandwidth": BANDWIDTH,
        "units": units,
    }
    level = {"topology": "switch", "size": 1, "bandwidth": 1e9}
    return unsure(machine({"device": device, "network": [level]}), seed)


def traces(rows: int, bits: int, fused: bool, pieces: int) -> TraceSet:
    """A product of `rows` with a square of weights, in column pieces."""
    t = TraceBuilder()
    weights = SIDE * SIDE // pieces
    io = 2 * rows * (SIDE + SIDE // pieces)
    for _ in range(pieces):
        before: list[int] = []
        if bits < 16 and not fused:
            moved = int(weights * (bits / 8 + 2))
            work: dict[str, Any] = {
                "num_ops": UNPACK * weights,
                "tensor_size": moved,
                "dtype": "bf16",
            }
            before = [t.comp("unpack", **work, unit="vector")]
        side = UNPACK * weights if bits < 16 and fused else 0
        read = weights * (bits / 8 if fused else 2)
        t.comp(
            "product",
            num_ops=2 * rows * weights,
            tensor_size=int(read + io),
            dtype="bf16",
            unit="matrix",
            side_unit="vector",
            side_ops=side,
            deps=before,
        )
    return TraceSet.of(t)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a product, and its rate."""
    work = traces(case["rows"], setting["bits"], setting["fused"], setting["pieces"])
    seconds = seconds_of(work, site(seed))
    return {"seconds": seconds, "tflops": 2 * case["rows"] * SIDE * SIDE / seconds / 1e12}


def one(bits: int, fused: bool) -> list[Setting]:
    """In one piece or several, so that unpacking and products may overlap."""
    return [{"bits": bits, "fused": fused, "pieces": p} for p in (1, 4, 16)]


STUDY = Study(
    id="B12",
    system="TileFuse",
    family="devices",
    strength="direction",
    claims=[
        Claim(
            "products up to 121.6 % faster than in full precision",
            2.216,
            2.216,
            figure="gain over BF16",
            where={"rows": 64},
        ),
        Claim(
            "products with a vector up to 281 % faster",
            3.81,
            3.81,
            figure="gain over BF16",
            where={"rows": 1},
        ),
        Claim(
            "prefill with 64.6 % less energy", 0.646, 0.646, kind="not simulable", figure="energy"
        ),
    ],
    rests_on={"a unit that unpacks beside the products": "machines/device/units.py"},
    cases=lambda quick: [{"rows": n} for n in ((1, 64, 4096) if quick else (1, 16, 64, 256, 4096))],
    sides={"fused": one(4, True), "unpacked before": one(4, False), "BF16": one(16, True)[:1]},
    untuned=["BF16"],
    idea="fused",
    measure=measure,
    better=("seconds", "min"),
    health="tflops",
    gone=lambda case: bool(case["rows"] >= 4096),
    ablate={"unpacking inside": {"fused": False}},
    predictions={
        "a vector gains more than 3 times over BF16": lambda t: least(t.gains("BF16", rows=1)) - 3,
        "and less than 4 times": lambda t: 4 - most(t.gains("BF16", rows=1)),
        "the gain over unpacking before is larger still": lambda t: (
            least(t.gains("unpacked before", rows=1)) - most(t.gains("BF16", rows=1))
        ),
        "large products gain nothing": lambda t: 1.02 - most(t.gains(rows=4096)),
    },
    decides="bytes of weights: a quarter of BF16's leave 3.7 to 4 times where memory bounds, but BF16 "
    "is then below half of its best rate and counts as collapsed. In large products the comparator "
    "unpacks in four pieces, the first of which (0.12 of 5.6 ms) overlaps with nothing.",
    cannot_say="How tiles are moved inside the NPU, and energy, of which nothing is known.",
)
