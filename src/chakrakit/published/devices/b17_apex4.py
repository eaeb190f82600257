"""B17, APEX4: products of 4-bit weights and 4-bit activations, by the ratio of matrix to vector units.

The matrix units multiply in INT4; every group of the inner side leaves a partial sum, which the vector units
turn into floating point, scale and add. The kernel takes the longer of the two (`side_ops` on the vector
unit), so what counts is ρ, the rate of the one over that of the other. The work per partial sum is calibrated
on the middle of the published gain at ρ = 16; all else follows.
"""

from __future__ import annotations

from functools import cache

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

DEVICES = {
    "RTX 3090": (142e12, 284e12, 568e12, 35.6e12, 936),
    "A40": (150e12, 299e12, 599e12, 37.4e12, 696),
    "L40S": (362e12, 733e12, 733e12, 91.6e12, 864),
    "A100": (312e12, 624e12, 1248e12, 19.5e12, 1555),
}
"""FP16, INT8, INT4 of the matrix units, FP32 of the vector units, and GB/s: NVIDIA's data sheets, dense."""
OPERATIONS = 28.4
"""Of the vector units for a partial sum: 4 / 2.25 times as long as the matrix unit multiplies at ρ = 16."""
SHAPES = {"prefill": (2048, 4096, 14336), "decode": (16, 4096, 14336)}
"""Rows, inner side and columns of a wide layer of Llama 3 8B."""


@cache
def site(device: str, seed: int) -> Machine:
    """The device with its two units."""
    half, *narrow, vector, bandwidth = DEVICES[device]
    matrix = dict(zip(map(_element, (16, 8, 4)), (half, *narrow), strict=True))
    units = {"matrix": {"peak": matrix}, "vector": {"peak": {"fp32": vector, "fp16": vector}}}
    rates = {"peak": {"fp16": half}, "memory_bandwidth": bandwidth * 1e9, "kernel_overhead": "3 us"}
    level = {"topology": "switch", "size": 1, "bandwidth": 1e9}
    chip = {"name": device, **rates, "units": units}
    return unsure(machine({"device": chip, "network": [level]}), seed)


def _element(bits: int) -> str:
    return "fp16" if bits == 16 else f"int{bits}"


def traces(shape: str, bits: int, group: int) -> TraceSet:
    """One product; a group of 0 is the whole inner side, which leaves one partial sum."""
    m, k, n = SHAPES[shape]
    t = TraceBuilder()
    sums = m * n * (k / group if group else 1) if bits < 16 else 0
    t.comp(
        "product",
        num_ops=2 * m * n * k,
        tensor_size=int(bits / 8 * (m * k + k * n) + 2 * m * n),
        dtype=_element(bits),
        op_type="matmul",
        unit="matrix",
        side_unit="vector",
        side_ops=int(OPERATIONS * sums),
    )
    return TraceSet.of(t)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a product, and how near that is to the rate of the matrix unit."""
    m, k, n = SHAPES[case["shape"]]
    work = traces(case["shape"], setting["bits"], setting["group"])
    seconds = seconds_of(work, site(case["device"], seed))
    plain = seconds_of(traces(case["shape"], 16, 0), site(case["device"], seed))
    full = 2 * m * n * k / DEVICES[case["device"]][0]
    return {"seconds": seconds, "of_fp16": full / seconds, "times_fp16": plain / seconds}


def bits(width: int, *groups: int) -> list[Setting]:
    """A width with these groups to choose from."""
    return [{"bits": width, "group": g} for g in groups]


STUDY = Study(
    id="B17",
    system="APEX4",
    family="devices",
    strength="direction",
    claims=[
        Claim(
            "2.0 to 2.5 times FP16 on an RTX 3090 (ρ = 16)",
            2.0,
            2.5,
            kind="calibrated",
            figure="times_fp16",
            where={"device": "RTX 3090", "shape": "prefill"},
        ),
        Claim(
            "0.43 to 0.47 times FP16 on an A100 (ρ = 64)",
            0.43,
            0.47,
            figure="times_fp16",
            where={"device": "A100", "shape": "prefill"},
        ),
        Claim("perplexity within 0.63", 0, 0.63, kind="not simulable", figure="perplexity"),
    ],
    rests_on={"units with rates of their own": "machines/device/units.py"},
    cases=lambda quick: [
        {"device": d, "shape": s}
        for d in (("RTX 3090", "A100") if quick else DEVICES)
        for s in SHAPES
    ],
    sides={
        "W4A4": bits(4, 128),
        "W8A8": bits(8, 0, 128, 256),
        "FP16": bits(16, 0),
        "W4A4, one scale a row": bits(4, 0),
    },
    untuned=["FP16", "W4A4, one scale a row"],
    idea="W4A4",
    measure=measure,
    better=("seconds", "min"),
    health="of_fp16",
    gone=lambda case: bool(case["device"] == "A100" and case["shape"] == "prefill"),
    ablate={"four bits": {"bits": 16}},
    predictions={
        "at ρ = 64 groups of 128 lose against FP16": lambda t: (
            1 - most(t.gains("FP16", device="A100", shape="prefill"))
        ),
        "but only the naive model's 0.5 at least, where 0.43 to 0.47 was measured": lambda t: (
            least(t.gains("FP16", device="A100", shape="prefill")) - 0.5
        ),
        "one scale a row makes up for it": lambda t: (
            1 - most(t.gains("W4A4, one scale a row", device="A100", shape="prefill"))
        ),
        "where memory bounds, four bits gain on every device": lambda t: (
            least(t.gains("FP16", shape="decode")) - 1.5
        ),
    },
    decides="ρ times the operations of a partial sum over the group; the longer unit counts, waits do not.",
    amended="the claims about FP16, which became a figure of their own instead of a gain.",
    cannot_say="How real kernels overlap units: the figure at ρ = 64 is a quarter too good; and accuracy.",
)
