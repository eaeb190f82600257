"""A21, FractalSort: a radix sort that keeps compressed histograms, by the bytes that it moves.

A radix sort of 16-bit keys reads all keys for a histogram, and reads and writes them once for each digit.
With compressed histograms of all 16 bits one pass is enough; the comparator chooses its digits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from chakrakit.operators import Count, counted
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.kernels.bounds import DEVICES, least_seconds

SAMPLE = 1 << 14
BITS = 16


def radix_sort(keys: Any, digit: int, bits: int) -> Any:
    """Counting sorts by digits, the lowest first."""
    for shift in range(0, bits, digit):
        part = (keys >> shift) & ((1 << digit) - 1)
        order = np.argsort(np.asarray(part), kind="stable")  # where the histogram sends each key
        np.bincount(np.asarray(part), minlength=1 << digit)
        keys = keys[order]
    return keys


@cache
def one_pass(digit: int, bits: int) -> Count:
    """The count of a sort of 16,384 keys."""
    keys = np.random.default_rng(1).integers(0, 1 << bits, SAMPLE).astype(np.uint32)
    assert (np.diff(radix_sort(keys, digit, bits).astype(np.int64)) >= 0).all()
    return counted(radix_sort, keys, digit, bits)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The least seconds of a sort, and the share of the memory's bandwidth that keys alone take."""
    keys = case["megabytes"] * 1e6 / 4
    digit = min(setting["digit"], case["bits"])
    count = one_pass(digit, case["bits"]).scaled(keys / SAMPLE)
    seconds = least_seconds(count, case["device"], seed)
    return {"seconds": seconds, "efficiency": 8 * keys / DEVICES[case["device"]][1] / seconds}


STUDY = Study(
    id="A21",
    system="FractalSort",
    family="kernels",
    strength="bound",
    claims=[
        Claim("6, 3 and 2.5 times the bandwidth efficiency of CPU, GPU and FPGA sorts", 2.5, 6.0)
    ],
    rests_on={"bytes of a sort, counted": "operators/counted.py"},
    cases=lambda quick: [
        {"megabytes": m, "bits": b, "device": "CPU"}
        for m in ((512,) if quick else (512, 32000))
        for b in (8, 16, 32)
    ],
    sides={
        "one pass of 16 bits": [{"digit": 16}],
        "radix sort, tuned": [{"digit": d} for d in (4, 8, 11)],
    },
    idea="one pass of 16 bits",
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["bits"] <= 8),
    ablate={"a digit of 16 bits": {"digit": 8}},
    predictions={
        "16-bit keys gain twice at most: two passes of 8 bits become one": lambda t: (
            2.1 - most(t.gains(bits=16))
        ),
        "keys of 8 bits gain nothing": lambda t: 1.02 - most(t.gains(bits=8)),
        "16-bit keys gain": lambda t: least(t.gains(bits=16)) - 1.02,
    },
    decides="the number of passes. Published gains are over sorts that are not tuned for 16 bits.",
    cannot_say="Caches that the histogram of 65,536 entries misses, and sorts that merge.",
)
