"""Operation: a class of work and its size, in the terms that profiles are made in."""

from __future__ import annotations

from typing import NamedTuple


class Operation(NamedTuple):
    """A class of work and its size.

    `kind` is the class that people and passes speak of (`gemm`, `attention`, `elementwise`); `table` the
    finer one that a profile may have measured (`gemm.fp32.nt`, `embedding`), asked first. `shape` is what
    the table is keyed by, or nothing.
    """

    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float
    table: str = ""


class Touch(NamedTuple):
    """Bytes of one storage that an operation reads or writes."""

    storage: int
    bytes: int


class Work(NamedTuple):
    """An operation and the device rows that carry it out."""

    rows: tuple[int, ...]
    operation: Operation
    operator: str
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
