"""Allocations: bytes taken and given back by rows, as an allocator sees them; and whether memory suffices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.results import Result


class MemoryFit(msgspec.Struct, frozen=True):
    """The tightest rank: what it needs at its peak, and what its device has."""

    fits: bool
    needs_bytes: int
    has_bytes: int
    rank: int = -1


def fit_of(needs: dict[int, int], has: dict[int, int]) -> MemoryFit | None:
    """The verdict for ranks with known needs on devices of known size; None where nothing is known."""
    shortfalls = [(n - has[rank], n, rank) for rank, n in needs.items() if n and has.get(rank)]
    if not shortfalls:
        return None
    _, need, rank = max(shortfalls, key=lambda shortfall: (shortfall[0], -shortfall[2]))
    return MemoryFit(need <= has[rank], need, has[rank], rank)


def fit_fields(fit: MemoryFit | None) -> dict[str, Any]:
    """The verdict as the fields of a result: `fits`, `needs_bytes`, `has_bytes`; None if unknown."""
    if fit is None:
        return {"fits": None, "needs_bytes": None, "has_bytes": None}
    return {"fits": fit.fits, "needs_bytes": fit.needs_bytes, "has_bytes": fit.has_bytes}


def shortage_line(
    fits: bool | None, needs: int | None, has: int | None, who: str = "a rank"
) -> str:
    """The line that a result begins with where memory does not suffice; "" where it does."""
    if fits is not False or needs is None or has is None:
        return ""
    return f"DOES NOT FIT: {who} needs {needs / 2**30:,.1f} GiB and its device has {has / 2**30:,.1f} GiB"


KINDS = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "kv_cache",
    "communication",
    "other",
)
"""What memory is held for."""
BEFORE = -1
"""The row number of memory that was held before the first row."""
BEFORE_LABEL = "(before the window)"
"""Who holds such memory."""


class Holder(Result, msgspec.Struct):
    """What holds memory at the peak: everything of one kind from one place."""

    kind: str
    operator: str
    bytes: int
    tensors: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocations:
    """Changes of one rank's memory in order: `bytes` taken (above 0) or given back at each.

    A change happens when its row starts or, with `at_end`, when it ends; row -1 stands for what was
    there before the first row. `kind` counts into KINDS, `label` into `labels`, which say who holds it.
    The order is the order of issue, which is what an allocator sees: the sums depend on nothing else, so
    that a plan, its simulation and the analysis of that have one peak. Times only place it on a clock.
    """

    row: I64
    at_end: Mask
    bytes: I64
    kind: I8
    label: I32
    labels: tuple[str, ...]
    source: str
    tensors: int = 0
    """How many tensors are accounted for one by one; 0 where only sums are known."""

    @classmethod
    def joined(cls, parts: Sequence[Allocations], source: str) -> Allocations:
        """The changes of several accounts, one after the other."""
        labels = tuple(dict.fromkeys(text for p in parts for text in p.labels))
        number = {text: i for i, text in enumerate(labels)}
        moved = [np.array([number[t] for t in p.labels] or [0], np.int32)[p.label] for p in parts]
        return cls(
            row=np.concatenate([p.row for p in parts]),
            at_end=np.concatenate([p.at_end for p in parts]),
            bytes=np.concatenate([p.bytes for p in parts]),
            kind=np.concatenate([p.kind for p in parts]),
            label=np.concatenate(moved).astype(np.int32),
            labels=labels,
            source=source,
            tensors=sum(p.tensors for p in parts),
        )

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def held(self) -> I64:
        """Bytes held after each change."""
        return np.cumsum(self.bytes)

    @cached_property
    def _peak(self) -> int:
        """The change after which most is held; -1 where nothing ever is."""
        return int(self.held.argmax()) if len(self) and int(self.held.max()) > 0 else -1

    @property
    def peak_bytes(self) -> int:
        """Most bytes held at once."""
        return int(self.held[self._peak]) if self._peak >= 0 else 0

    @property
    def before_bytes(self) -> int:
        """Bytes that were there before the first row."""
        return int(self.bytes[(self.row == BEFORE) & (self.bytes > 0)].sum())

    def by_kind(self) -> dict[str, int]:
        """Bytes of each kind at the peak, in the order of KINDS; they add up to the peak."""
        upto = self._peak + 1
        sums = np.bincount(self.kind[:upto], self.bytes[:upto], len(KINDS)).astype(np.int64)
        return {name: int(n) for name, n in zip(KINDS, sums.tolist(), strict=True) if n}

    def holders(self, most: int = 20) -> list[Holder]:
        """Who holds the peak, largest first."""
        upto = self._peak + 1
        key = self.kind[:upto].astype(np.int64) * max(len(self.labels), 1) + self.label[:upto]
        keys, inverse = np.unique(key, return_inverse=True)
        size = np.bincount(inverse, self.bytes[:upto], len(keys)).astype(np.int64)
        count = np.bincount(inverse, np.sign(self.bytes[:upto]), len(keys)).astype(np.int64)
        order = [i for i in np.argsort(-size, kind="stable").tolist() if size[i] > 0][:most]
        width = max(len(self.labels), 1)
        return [
            Holder(
                KINDS[int(keys[i]) // width],
                self.labels[int(keys[i]) % width],
                int(size[i]),
                max(int(count[i]), 1) if self.tensors else 0,
            )
            for i in order
        ]

    def times(self, start: I64, end: I64) -> I64:
        """When each change happens, given the times of the rows; never before an earlier one."""
        if not len(self):
            return np.zeros(0, np.int64)
        ran = end >= np.maximum(start, 0)
        first = int(start[ran].min()) if ran.any() else 0
        row = np.maximum(self.row, 0)
        row_time = (
            np.where(self.at_end, end[row], start[row]) if len(start) else np.zeros(len(self))
        )
        at = np.where((self.row == BEFORE) | ~(ran[row] if len(ran) else False), first, row_time)
        return np.maximum.accumulate(at).astype(np.int64)

    def peak_time(self, start: I64, end: I64) -> int:
        """When most is held."""
        return int(self.times(start, end)[self._peak]) if self._peak >= 0 else 0

    def timeline(self, start: I64, end: I64) -> tuple[I64, I64]:
        """Moments of change, each once, and the most that is held from each on until the next."""
        at = self.times(start, end)
        if not len(at):
            return at, self.held
        last = np.r_[at[1:] != at[:-1], True]
        first = np.r_[0, np.flatnonzero(last)[:-1] + 1]
        after, most = self.held[last], np.maximum.reduceat(self.held, first)
        # A moment in which more was held than after it is shown with that, or the peak would be lost.
        return at[last], np.maximum(after, most)
