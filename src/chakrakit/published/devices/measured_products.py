"""Products of large matrices as measured on an H200: by the library, in pieces, and by Strassen's algorithm.

`benchmarks/study_strassen.py` writes the file: seven measurements of each, one for every seed of a study.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from chakrakit.published import JUDGED_SEEDS, TUNING_SEEDS

FILE = Path(__file__).parent / "h200_products.json"
SEEDS = (*JUDGED_SEEDS, *TUNING_SEEDS)
FUSED = 0.5
"""What is left of the sums' traffic where products read both terms: one of two passes over each operand."""


class MeasuredProducts(msgspec.Struct, frozen=True):
    """Seconds of products by element type and shape, then by how they are done."""

    device: str
    torch: str
    seconds: dict[str, dict[str, list[float]]]


@cache
def products() -> MeasuredProducts:
    """What was measured."""
    return msgspec.json.decode(FILE.read_bytes(), type=MeasuredProducts)


def measured_dtypes() -> list[str]:
    """The element types of what was measured."""
    return list(dict.fromkeys(name.split()[0] for name in products().seconds))


def measured_seconds(dtype: str, shape: str, way: str, seed: int) -> float:
    """Of one product; `strassen, fused` is the seven products and what fusing leaves of the sums."""
    ways = products().seconds[f"{dtype} {shape}"]
    at = SEEDS.index(seed)
    if way == "strassen, fused":
        alone, whole = ways["seven products"][at], ways["strassen"][at]
        return alone + FUSED * max(0.0, whole - alone)
    return ways[way][at]
