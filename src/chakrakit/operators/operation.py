"""Operation: a class of work and its size, in the terms that profiles are made in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chakrakit.operators.calls import Call


class Operation(NamedTuple):
    """A class of work and its size.

    `kind` is the class that people and passes speak of (`gemm`, `attention`, `elementwise`); `table` the
    finer one that a profile may have measured (`gemm.fp32.nt`, `embedding`), asked first. `shape` is what
    the table is keyed by, or nothing. `flops` are those of product units, `vector_ops` all others.
    """

    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float
    table: str = ""
    vector_ops: float = 0.0


Measure = Callable[[Call], Operation | None]
"""The class, size and bytes of a call; None where its tensors are unknown. The table adds its FLOPs."""
Count = Callable[[Call], int]
"""The floating-point operations of a call; 0 where its tensors are unknown."""
