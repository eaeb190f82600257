"""A03, AB-Sparse: each head of block-sparse attention has blocks of its own size.

A decode step reads the weights, of each head the centroids of all blocks, and the keys and values of those
that it selects, always as many tokens. Some heads need small blocks to select well; the others do with large
ones, of which there are fewer to score. With one size for all, all heads need the small one. Centroids may
be kept in fewer bits, on either side. Whether answers get better is not for a simulation to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.machines import load_machine
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

LAYERS, HEADS, WIDTH, WEIGHTS = 32, 8, 128, 16.1e9
"""Of Llama 3.1 8B: layers, heads of keys and values, their width, and bytes of all weights in bf16."""
SELECTED = 2048
"""Tokens that each head attends to."""
FINE, COARSE = 16, 64
"""Tokens of small and of large blocks."""


@cache
def step_seconds(
    batch: int, context: int, fine: float, bits: int, middle: bool, seed: int
) -> float:
    """Seconds of a decode step on one H100, by what it reads."""
    blocks = context / 32 if middle else context * (fine / FINE + (1 - fine) / COARSE)
    centroids = blocks * WIDTH * bits / 8
    selected = SELECTED * WIDTH * 2 * 2
    each = batch * LAYERS * HEADS
    t = TraceBuilder()
    dense = kernel(t, "weights", 2 * batch * WEIGHTS / 2, WEIGHTS, "bf16")
    scored = kernel(t, "scores", each * 8 * blocks * WIDTH, each * centroids, "bf16", [dense])
    kernel(t, "attention", each * 16 * SELECTED * WIDTH, each * selected, "bf16", [scored])
    return seconds_of(TraceSet.of([t]), unsure(load_machine("dgx-h100"), seed), "roofline")


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, and as a share of those with blocks of 32 tokens."""
    fine = case["fine"] if setting["sizes"] == "by head" else 1.0
    shape = (case["batch"], case["context"], fine, setting["bits"], setting["sizes"] == "32")
    seconds = step_seconds(*shape, seed)
    usual = step_seconds(*shape[:2], 1.0, 16, True, seed)
    return {"seconds": seconds, "as_usual": usual / seconds}


def cases(quick: bool) -> Sequence[Case]:
    """Heads that need small blocks, tokens of context and requests."""
    rows = [(0.25, 131072, 16), (0.25, 16384, 16), (1.0, 131072, 16)]
    if not quick:
        rows += [(0.5, 131072, 16), (0.25, 131072, 64), (1.0, 16384, 64), (0.25, 16384, 1)]
    return [{"fine": f, "context": c, "batch": b} for f, c, b in rows]


def one(sizes: str, bits: int) -> Setting:
    """Sizes of blocks, and bits of a number of a centroid."""
    return {"sizes": sizes, "bits": bits}


STUDY = Study(
    id="A03",
    system="AB-Sparse",
    family="serving",
    strength="side cost",
    claims=[
        Claim("accuracy up to 5.43 % higher", 1.0, 1.0, kind="not simulable"),
        Claim("without throughput overhead", 1.0, 1.0, figure="gain over blocks of 32, 16 bits"),
    ],
    rests_on={
        "time of a step by the bytes that it reads": "machines/device/work.py",
        "constants that nobody knows exactly": "published/tools.py",
    },
    cases=cases,
    sides={
        "AB-Sparse": [one("by head", 8), one("by head", 16)],
        "small blocks for all": [one("small", 8), one("small", 16)],
        "blocks of 32, 16 bits": [one("32", 16)],
    },
    idea="AB-Sparse",
    untuned=["blocks of 32, 16 bits"],
    measure=measure,
    better=("seconds", "min"),
    health="as_usual",
    gone=lambda case: bool(case["fine"] == 1.0),
    ablate={"sizes by head": {"sizes": "small"}},
    predictions={
        "no step takes longer than with blocks of 32 tokens": lambda t: (
            least(t.gains("blocks of 32, 16 bits")) - 0.999
        ),
        "more is saved the longer the context": lambda t: (
            least(t.gains(fine=0.25, context=131072, batch=16))
            - most(t.gains(context=16384, fine=0.25))
        ),
        "nothing is saved where every head needs small blocks": lambda t: (
            0.001 - most(abs(t.gains(fine=1.0) - 1))
        ),
        "centroids of 8 bits are always chosen": lambda t: np.array(
            [float(t.choices("bits") == [8] * len(t.cases)) * 2 - 1] * len(t.seeds)
        ),
    },
    amended="After the first full run the figure for collapse became the time by that of blocks of 32: "
    "tokens a second differ with the number of requests.",
    cannot_say="Accuracy, whether 8 bits lose nothing, and how well a kernel runs whose heads have blocks of "
    "unlike sizes: bytes are read at the memory's rate here.",
)
