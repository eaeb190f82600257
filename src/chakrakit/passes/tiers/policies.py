"""Which tensor leaves a cache that is full: policies that see every use and name a victim.

A policy of your own is a class with the three methods of `EvictionPolicy`.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

NEVER = 1 << 62
"""The next use of what is not used again."""


class EvictionPolicy(Protocol):
    """Decides which key leaves next. Uses are numbered from 0."""

    def used(self, key: str, now: int) -> None:
        """A key is used, and is in the cache from now on."""

    def victim(self) -> str:
        """The key, of those in the cache, that leaves next."""

    def dropped(self, key: str) -> None:
        """A key has left."""


class Lru:
    """The key that was not used for longest leaves."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._order: OrderedDict[str, None] = OrderedDict()

    def used(self, key: str, now: int) -> None:
        """A key is used, and is in the cache from now on."""
        self._order[key] = None
        self._order.move_to_end(key)

    def victim(self) -> str:
        """The key that leaves next."""
        return next(iter(self._order))

    def dropped(self, key: str) -> None:
        """A key has left."""
        del self._order[key]


class RankedPolicy:
    """The key with the lowest rank leaves; a rank holds from one use of its key to the next."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._rank: dict[str, tuple[int, int]] = {}
        self._heap: list[tuple[tuple[int, int], str]] = []

    def rank(self, key: str, now: int) -> int:
        """What decides, of a key that is used now."""
        raise NotImplementedError

    def used(self, key: str, now: int) -> None:
        """A key is used, and is in the cache from now on."""
        self._rank[key] = (self.rank(key, now), now)
        heapq.heappush(self._heap, (self._rank[key], key))

    def victim(self) -> str:
        """The key that leaves next; of equal ones the one that was not used for longest."""
        while True:
            rank, key = self._heap[0]
            if self._rank.get(key) == rank:
                return key
            heapq.heappop(self._heap)  # used again since, or gone

    def dropped(self, key: str) -> None:
        """A key has left."""
        del self._rank[key]


class Belady(RankedPolicy):
    """The key that is used again last, or never, leaves: no policy reads less where keys are of one size."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self._next = [NEVER] * len(keys)
        seen: dict[str, int] = {}
        for i in range(len(keys) - 1, -1, -1):
            self._next[i] = seen.get(keys[i], NEVER)
            seen[keys[i]] = i

    def rank(self, key: str, now: int) -> int:
        """The later the next use, the lower."""
        return -self._next[now]


class MinPending(RankedPolicy):
    """The key with the fewest uses to come leaves: its partial result is the one that is missed least."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self._left: dict[str, int] = {}
        for key in keys:
            self._left[key] = self._left.get(key, 0) + 1

    def rank(self, key: str, now: int) -> int:
        """The uses that are left."""
        self._left[key] -= 1
        return self._left[key]


class Partition:
    """Keys of the partition (the text before the first `/`) that was not used for longest leave first."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._parts: OrderedDict[str, dict[str, None]] = OrderedDict()

    def used(self, key: str, now: int) -> None:
        """A key is used, and is in the cache from now on."""
        part = key.partition("/")[0]
        self._parts.setdefault(part, {})[key] = None
        self._parts.move_to_end(part)

    def victim(self) -> str:
        """A key of the partition that leaves."""
        return next(iter(next(iter(self._parts.values()))))

    def dropped(self, key: str) -> None:
        """A key has left."""
        part = key.partition("/")[0]
        del self._parts[part][key]
        if not self._parts[part]:
            del self._parts[part]


POLICIES: dict[str, Callable[[Sequence[str]], EvictionPolicy]] = {
    "lru": Lru,
    "belady": Belady,
    "partition": Partition,
    "min-pending": MinPending,
}
"""By name: made from all keys that will be used, in order."""
