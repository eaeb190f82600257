"""B07, SMEPilot: every operator of a language model on the CPU cores, the matrix unit beside them, or both.

The units share one memory. The pass `units` chooses by shape, splits where arithmetic limits, and repacks
tensors between the matrix unit's tiles and the cores' rows; comparators keep all work on one unit.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.passes import Units
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
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

CHIPS = {"M4": (4.0e12, 1.1e12, 120), "phone": (1.0e12, 0.35e12, 60)}
"""BF16 of the matrix unit and of all cores, and GB/s: an Apple M4 as microbenchmarks give it (2 TFLOP/s in
FP32 of one SME unit, twice that in BF16), and a phone with a quarter of the unit, a third of the cores and
half of the memory (an estimate)."""


@cache
def site(chip: str, seed: int) -> Machine:
    """A chip with both units."""
    matrix, cores, bandwidth = CHIPS[chip]
    units = {
        "matrix": {"peak": {"bf16": matrix}, "layout": "tiles"},
        "cores": {"peak": {"bf16": cores}, "layout": "rows"},
    }
    device = {
        "name": chip,
        "peak": {"bf16": matrix},
        "memory_bandwidth": bandwidth * 1e9,
        "units": units,
    }
    level = {"topology": "switch", "size": 1, "bandwidth": 1e9}
    return unsure(machine({"device": device, "network": [level]}), seed)


@cache
def model(kind: str, tokens: int) -> TraceSet:
    """Llama 3.2 3B: a prompt, or one token after it."""
    if kind == "prefill":
        step = Step(kind="prefill", seq=tokens, global_batch=1, micro_batch=1)
    else:
        step = Step(kind="decode", seq=tokens, global_batch=1, micro_batch=1, new_tokens=1)
    return generate(Workload(model=model_named("llama3.2-3b"), plan=Plan(data="none"), step=step))


@cache
def placed(kind: str, tokens: int, chip: str, choose: str, repack: bool) -> TraceSet:
    """The model on units, as they are without any doubt about their rates."""
    return model(kind, tokens) | Units(site(chip, 0), choose=choose, repack=repack)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a prompt or a token, and tokens a second."""
    kind, tokens, chip = case["kind"], case["tokens"], case["chip"]
    work = placed(kind, tokens, chip, setting["choose"], setting["repack"])
    seconds = seconds_of(work, site(chip, seed))
    return {"seconds": seconds, "per_s": (tokens if kind == "prefill" else 1) / seconds}


def units(*names: str) -> list[Setting]:
    """Ways to choose."""
    return [{"choose": name, "repack": True} for name in names]


STUDY = Study(
    id="B07",
    system="SMEPilot",
    family="devices",
    strength="direction",
    claims=[
        Claim("up to 3.94 times as fast end to end", 3.94, 3.94, figure="gain over cores alone")
    ],
    rests_on={
        "units that share one memory": "machines/device/units.py",
        "layouts and repacking": "passes/units.py",
    },
    cases=lambda quick: [
        {"kind": kind, "tokens": n, "chip": chip}
        for chip in (("M4",) if quick else CHIPS)
        for kind, n in (("prefill", 16), ("prefill", 256), ("decode", 256))
    ],
    sides={
        "chosen by operator": units("split", "fastest"),
        "best single unit": units("matrix", "cores"),
        "cores alone": units("cores"),
    },
    untuned=["cores alone"],
    idea="chosen by operator",
    measure=measure,
    better=("seconds", "min"),
    health="per_s",
    gone=lambda case: case["kind"] == "decode",
    ablate={"a choice by operator": {"choose": "matrix"}},
    predictions={
        "prompts of 256 tokens gain over the cores about what the rates say": lambda t: (
            least(t.gains("cores alone", kind="prefill", tokens=256)) - 3
        ),
        "over the best single unit at most what the cores add": lambda t: 1.35 - most(t.gains()),
        "decoding gains nothing: memory bounds it": lambda t: 1.02 - most(t.gains(kind="decode")),
    },
    cannot_say="Caches of the cores, thermal limits, and kernels for shapes that do not fill a tile.",
)
