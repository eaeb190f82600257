"""Two caches in one memory: embeddings and prefixes, adapters and prefixes, weights and activations.

The time of a service's step may depend on what such a pair has (`Service`): requests name what they need of
both, and what is missing has to come from elsewhere or be computed. A controller moves the border between
the two; the one that shrinks loses what it used least recently, and the one that grows can fill up at once,
which is traffic of its own, or as requests bring it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from chakrakit.errors import ConfigError


@dataclass
class LruCache:
    """Entries of one size, the least recently used leaving first, and ghosts of those that left last."""

    room: int
    ghost_room: int
    entries: OrderedDict[int, None] = field(default_factory=OrderedDict)
    ghosts: OrderedDict[int, None] = field(default_factory=OrderedDict)
    hits: int = 0
    misses: int = 0
    near_misses: int = 0
    """Misses of entries that left so lately that a little more room would have kept them."""

    def use(self, key: int) -> bool:
        """Whether an entry is there; it is, after this."""
        if key in self.entries:
            self.entries.move_to_end(key)
            self.hits += 1
            return True
        self.misses += 1
        self.near_misses += key in self.ghosts
        self.ghosts.pop(key, None)
        if self.room:
            self.entries[key] = None
        self._fit()
        return False

    def resize(self, room: int) -> None:
        """More or less room."""
        self.room = room
        self._fit()

    def refill(self) -> int:
        """Brings back what left last, as much as there is room for; the number of entries."""
        count = min(self.room - len(self.entries), len(self.ghosts))
        for _ in range(max(0, count)):
            key, _none = self.ghosts.popitem()
            self.entries[key] = None
            self.entries.move_to_end(key, last=False)
        return max(0, count)

    def _fit(self) -> None:
        while len(self.entries) > self.room:
            key, _ = self.entries.popitem(last=False)
            self.ghosts[key] = None
            if len(self.ghosts) > self.ghost_room:
                self.ghosts.popitem(last=False)

    def forget_counts(self) -> None:
        """Counts begin anew."""
        self.hits = self.misses = self.near_misses = 0


GHOSTS = 0.1
"""Ghosts stand for this share of the memory: what a step of a controller's might give."""


@dataclass
class CachePair:
    """Two caches that share `memory` bytes, of which the first has a `share`.

    `controller(pair)` gives a new share after every `every` requests; it may look at the hits, misses and
    near misses of both caches since it was asked last. With `eager`, a cache that grows is filled at once
    with what left it last.
    """

    memory: float
    entry_bytes: tuple[float, float]
    share: float = 0.5
    controller: Callable[[CachePair], float] | None = None
    every: int = 100
    eager: bool = False

    def __post_init__(self) -> None:
        if not (self.memory > 0 and min(self.entry_bytes) > 0 and self.every >= 1):
            raise ConfigError(
                "a CachePair needs memory and entries above 0, and `every` of 1 or more"
            )
        ghosts = [int(GHOSTS * self.memory // size) for size in self.entry_bytes]
        self.caches = tuple(LruCache(0, room) for room in ghosts)
        self.asked = 0
        self.divide(self.share)

    def divide(self, share: float) -> float:
        """Moves the border; the bytes that an eager refill brings."""
        if not 0 <= share <= 1:
            raise ConfigError(f"a CachePair with a share of {share}; give 0 to 1")
        self.share = share
        parts = (share * self.memory, (1 - share) * self.memory)
        moved = 0.0
        for cache, part, size in zip(self.caches, parts, self.entry_bytes, strict=True):
            cache.resize(int(part // size))
        for cache, size in zip(self.caches, self.entry_bytes, strict=True):
            moved += cache.refill() * size if self.eager else 0.0
        return moved

    def request(self, first: Iterable[int], second: Iterable[int]) -> tuple[int, int, float]:
        """What a request misses of what it needs of both caches, and bytes of a refill that it waits for."""
        missed = [
            sum(not cache.use(key) for key in keys)
            for cache, keys in zip(self.caches, (first, second), strict=True)
        ]
        self.asked += 1
        refilled = 0.0
        if self.controller is not None and self.asked % self.every == 0:
            refilled = self.divide(min(1.0, max(0.0, self.controller(self))))
            for cache in self.caches:
                cache.forget_counts()
        return missed[0], missed[1], refilled
