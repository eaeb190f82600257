"""Residency: which share of what an operation reads is still in the device's cache.

A storage is found in the cache if, since it was last touched, no more than the cache's size has been touched
besides it. Operations are taken in the order of the trace; what it does not know (tensors without a
storage) is not in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable

from chakrakit.machines.operations import Touch, Work


class Cache:
    """What was touched when, in bytes since the beginning; `size` is how many of them stay."""

    def __init__(self, size: float) -> None:
        self.size = size
        self._clock = 0.0
        self._touched: dict[int, float] = {}

    def resident(self, work: Work) -> float:
        """The share of the bytes it reads that is in the cache; then it has run, and its own are."""
        total = sum(t.bytes for t in work.reads)
        found = sum(self._share(t) * t.bytes for t in work.reads)
        self._touch(work.reads)
        self._touch(work.writes)
        return found / total if total else 0.0

    def _share(self, touch: Touch) -> float:
        """All of a storage that was touched lately, none of one touched long ago, a part in between."""
        if not self.size or touch.storage not in self._touched:
            return 0.0
        since = self._clock - self._touched[touch.storage]
        return min(1.0, max(0.0, 2.0 - 2.0 * (since + touch.bytes / 2) / self.size))

    def _touch(self, touches: Iterable[Touch]) -> None:
        for touch in touches:
            self._clock += touch.bytes
            self._touched[touch.storage] = self._clock
