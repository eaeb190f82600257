"""Whether what is needed is there: the verdict on memory that every result begins with."""

from __future__ import annotations

from typing import Any

import msgspec


class MemoryFit(msgspec.Struct, frozen=True):
    """The tightest rank: what it needs at its peak, and what its device has."""

    fits: bool
    needs_bytes: int
    has_bytes: int
    rank: int = -1


def fit_of(needs: dict[int, int], has: dict[int, int]) -> MemoryFit | None:
    """The verdict for ranks with known needs on devices of known size; None where nothing is known."""
    known = [(n - has[rank], n, rank) for rank, n in needs.items() if n and has.get(rank)]
    if not known:
        return None
    _, need, rank = max(known, key=lambda found: (found[0], -found[2]))
    return MemoryFit(need <= has[rank], need, has[rank], rank)


def fit_fields(fit: MemoryFit | None) -> dict[str, Any]:
    """The verdict as the fields of a result: `fits`, `needs_bytes`, `has_bytes`; None if unknown."""
    if fit is None:
        return {"fits": None, "needs_bytes": None, "has_bytes": None}
    return {"fits": fit.fits, "needs_bytes": fit.needs_bytes, "has_bytes": fit.has_bytes}


def said_first(fits: bool | None, needs: int | None, has: int | None, who: str = "a rank") -> str:
    """The line that a result begins with where memory does not suffice, else nothing."""
    if fits is not False or needs is None or has is None:
        return ""
    return f"DOES NOT FIT: {who} needs {needs / 2**30:,.1f} GiB and its device has {has / 2**30:,.1f} GiB"
