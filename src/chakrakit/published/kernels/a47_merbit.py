"""A47, MERBIT: a sparse matrix-vector product whose row numbers are bits, by the bytes of its format.

Coordinates store a row and a column for every entry; MERBIT stores a column, and one bit where a row ends.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from chakrakit.operators import Count, counted
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.kernels.bounds import DEVICES, least_seconds

ROWS, ENTRIES = 2000, 1e8


@cache
def matrix(degree: int, skew: float) -> tuple[Any, Any, Any]:
    """Rows, columns and values, in order; degrees fall as a power of the rank."""
    rng = np.random.default_rng(3)
    weight = np.arange(1, ROWS + 1) ** -skew
    counts = np.maximum(1, np.rint(degree * ROWS * weight / weight.sum())).astype(np.int64)
    rows = np.repeat(np.arange(ROWS, dtype=np.uint32), counts)
    columns = rng.integers(0, ROWS, len(rows)).astype(np.uint32)
    return rows, columns, rng.random(len(rows)).astype(np.float32)


def by_coordinates(rows: Any, columns: Any, values: Any, x: Any) -> Any:
    """Every entry names its row and its column."""
    return np.bincount(rows, values * x[columns], ROWS)


def by_bits(ends: Any, columns: Any, values: Any, starts: Any, x: Any) -> Any:
    """Every entry names its column; a bit of `ends` says where its row ends."""
    np.unpackbits(ends)
    return np.add.reduceat(values * x[columns], starts)


@cache
def product(form: str, degree: int, skew: float) -> Count:
    """The count of a product in a format, both of which give the same result."""
    rows, columns, values = matrix(degree, skew)
    x = np.random.default_rng(4).random(ROWS).astype(np.float32)
    last = np.r_[rows[1:] != rows[:-1], True]
    starts = np.flatnonzero(np.r_[True, last[:-1]])
    packed = np.packbits(last)
    assert np.allclose(
        by_coordinates(rows, columns, values, x), by_bits(packed, columns, values, starts, x)
    )
    if form == "coordinates":
        return counted(by_coordinates, rows, columns, values, x)
    if form == "rows":  # a pointer to every row
        return counted(lambda s, c, v, y: np.add.reduceat(v * y[c], s), starts, columns, values, x)
    return counted(by_bits, packed, columns, values, starts[:1], x)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The least seconds of a product with 100 million entries."""
    entries = len(matrix(case["degree"], case["skew"])[0])
    count = product(setting["form"], case["degree"], case["skew"]).scaled(ENTRIES / entries)
    seconds = least_seconds(count, "A100", seed)
    return {"seconds": seconds, "share": 12 * ENTRIES / DEVICES["A100"][1] / seconds}


STUDY = Study(
    id="A47",
    system="MERBIT",
    family="kernels",
    strength="bound",
    claims=[
        Claim(
            "1.27 and 1.25 times as fast as cuSPARSE's coordinates",
            1.25,
            1.27,
            figure="gain over coordinates",
        )
    ],
    rests_on={"bytes of a format, counted": "operators/counted.py"},
    cases=lambda quick: [
        {"degree": d, "skew": s}
        for d in (4, 32)
        for s in ((0.0, 0.8) if quick else (0.0, 0.4, 0.8))
    ],
    sides={
        "bits": [{"form": "bits"}],
        "pointers to rows": [{"form": "rows"}],
        "coordinates": [{"form": "coordinates"}],
    },
    untuned=["coordinates"],
    idea="bits",
    measure=measure,
    better=("seconds", "min"),
    health="share",
    gone=lambda case: bool(case["degree"] >= 32),
    ablate={"bits for rows": {"form": "coordinates"}},
    predictions={
        "bits gain over coordinates, at most the four bytes of a row number": lambda t: (
            1.5 - most(t.gains("coordinates"))
        ),
        "and something at least": lambda t: least(t.gains("coordinates")) - 1.02,
        "over pointers long rows gain nothing": lambda t: 1.02 - most(t.gains(degree=32)),
    },
    decides="bytes that are not of the format: NumPy's steps also write and read the gathered vector "
    "and the products, 20 to 22 of 29 to 34 bytes an entry. The formats alone, 12 bytes against 8.1, "
    "would leave 1.48 to a kernel that fuses these steps.",
    cannot_say="Rows of unequal length on unequal threads, which merge-path balances.",
)
