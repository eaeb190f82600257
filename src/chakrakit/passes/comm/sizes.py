"""Bytes of communication cut into whole elements, and put together again."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.operators import element_bytes
from chakrakit.passes.comm.rewrite import Rewrite
from chakrakit.trace.model import Trace


def element_size(body: Trace, row: int) -> int:
    """Bytes of an element of a call's message; 1 where the trace does not say."""
    if "comm_dtype" not in body.table.column_names:
        return 1
    return max(1, int(element_bytes(str(body.table.column("comm_dtype")[row].as_py() or ""))))


def shard_of(body: Trace, row: int, size: int, ranks: int) -> int:
    """One rank's part of `size` bytes: whole elements, filled up to be equal on all ranks."""
    each = element_size(body, row)
    each = each if size % each == 0 else 1
    return -(-size // each // ranks) * each


def cut(size: int, parts: int, each: int) -> list[int]:
    """`size` bytes in parts as even as whole elements allow, the larger ones first."""
    each = each if size % each == 0 else 1
    count, rest = divmod(size // each, parts)
    return [(count + (i < rest)) * each for i in range(parts)]


def add_up(rewrite: Rewrite, into: int, rows: Sequence[int], *columns: str) -> None:
    """The sums of some rows' attributes, where any of them has one, in one of them."""
    for column in columns:
        found = [n for row in rows if (n := rewrite.number(column, row)) is not None]
        if found:
            rewrite.set(column, into, sum(found))
