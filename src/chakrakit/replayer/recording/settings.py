"""Global settings of the program that was recorded, as far as its card or its kernels tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chakrakit.trace.sets import Card

_KNOWN = frozenset(
    [
        "allow_tf32",
        "cudnn_allow_tf32",
        "float32_matmul_precision",
        "reduced_precision_reduction",
        "deterministic",
        "cudnn_deterministic",
        "cudnn_benchmark",
        "threads",
        "sdp_backends",
        "memory_allocator",
        "allocator",
    ]
)
"""What the runner sets. Autocasting is none of it: the casts it made were recorded as operators."""
_TF32 = re.compile(r"tf32|s1688gemm|tensorop_s1688", re.IGNORECASE)
_PRODUCT = re.compile(r"gemm|xmma|cutlass|nvjet", re.IGNORECASE)


def read_settings(card: Card, kernels: Sequence[str]) -> dict[str, Any]:
    """What the collector wrote down; where it did not, what kernels' names give away."""
    found = card.settings.get("collector")
    told = found.get("settings") if isinstance(found, Mapping) else None
    if isinstance(told, Mapping) and told:
        return {name: value for name, value in told.items() if name in _KNOWN}
    products = [name for name in kernels if _PRODUCT.search(name)]
    return {"allow_tf32": True} if any(_TF32.search(name) for name in products) else {}
