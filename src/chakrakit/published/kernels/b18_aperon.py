"""B18, Aperon: vector search without pointers, by the bytes that a vector takes.

A list of full vectors reads them all; codes of tangent spaces read a few bytes of each, and full vectors of
the best alone. The scan is run for real on small data.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from chakrakit.operators import Count, counted
from chakrakit.published import Case, Claim, Figures, Setting, Study, most
from chakrakit.published.kernels.bounds import DEVICES, least_seconds

SAMPLE, DIMENSION, KEPT = 2048, 96, 32


def scan(vectors: Any, query: Any) -> Any:
    """Distances of all vectors, which are read once."""
    return np.einsum("ij,j->i", vectors, query)


def coded_scan(codes: Any, scale: Any, vectors: Any, query: Any) -> Any:
    """Distances by codes, and exact ones of the nearest."""
    rough = np.einsum("ij,j->i", codes, scale)
    best = np.argpartition(np.asarray(rough), KEPT)[:KEPT]
    return np.einsum("ij,j->i", vectors[best], query)


@cache
def a_vector(code_bytes: int) -> Count:
    """What one vector of a scan computes and moves; 0 for full vectors."""
    rng = np.random.default_rng(2)
    vectors, query = rng.random((SAMPLE, DIMENSION), np.float32), rng.random(DIMENSION, np.float32)
    if not code_bytes:
        return counted(scan, vectors, query).scaled(1 / SAMPLE)
    codes = rng.integers(0, 255, (SAMPLE, code_bytes)).astype(np.uint8)
    scale = np.ones(code_bytes, np.float32)
    return counted(coded_scan, codes, scale, vectors, query).scaled(1 / SAMPLE)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The least seconds of a scan; below the size of the last cache, vectors come eight times as fast."""
    count = a_vector(setting["code"]).scaled(case["vectors"])
    in_cache = count.bytes < 32e6
    seconds = least_seconds(count.scaled(1, 0.125 if in_cache else 1), "CPU", seed)
    share = 4 * DIMENSION * case["vectors"] / DEVICES["CPU"][1] / seconds
    return {"seconds": seconds, "ns_per_vector": seconds / case["vectors"] * 1e9, "share": share}


STUDY = Study(
    id="B18",
    system="Aperon",
    family="kernels",
    strength="bound",
    claims=[
        Claim("3.61 times as fast (4.1 against 15 ns a vector)", 3.61, 3.61),
        Claim("4.137 ns a vector", 4.137, 4.137, figure="ns_per_vector"),
    ],
    rests_on={"bytes of a scan, counted": "operators/counted.py"},
    cases=lambda quick: [
        {"vectors": n} for n in ((1e4, 1e6, 1e8) if quick else (1e4, 1e5, 1e6, 1e7, 1e8))
    ],
    sides={
        "codes": [{"code": c} for c in (24, 32)],
        "full vectors": [{"code": 0}, {"code": 0}],
        "coarse codes": [{"code": c} for c in (48, 64)],
    },
    idea="codes",
    measure=measure,
    better=("seconds", "min"),
    health="share",
    gone=lambda case: bool(case["vectors"] <= 1e4),
    ablate={"short codes": {"code": 64}},
    predictions={
        "the bytes leave room for 3.61 times over full vectors": lambda t: (
            most(t.gains("full vectors")) - 3.61
        ),
        "over codes of twice the size half of it at most": lambda t: (
            2.2 - most(t.gains("coarse codes"))
        ),
    },
    decides="the comparator, for the gain: codes of 48 bytes, with 22 bytes of results and candidates "
    "on both sides, leave 1.52, and full vectors 8 times and more. Bytes do not decide the time: at a "
    "socket's bandwidth they take 0.155 ns a vector at most, and 4.137 were published.",
    cannot_say="Recall, which decides how short codes may be, and branches that a pointerless layout avoids.",
)
