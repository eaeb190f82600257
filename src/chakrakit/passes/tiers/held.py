"""What a cache of tensors holds: which uses find theirs there, and what leaves for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chakrakit.errors import ConfigError, nearest
from chakrakit.passes.tiers.policies import POLICIES, EvictionPolicy


class Access(NamedTuple):
    """One use of a tensor."""

    key: str
    bytes: int
    writes: bool = False


@dataclass
class CacheOutcome:
    """What became of every use."""

    hits: list[bool] = field(default_factory=list)
    written_back: list[list[tuple[str, int]]] = field(default_factory=list)
    """Before each use: the tensors that left with changes, and their bytes."""
    peak_bytes: int = 0

    def read_bytes(self, accesses: Sequence[Access]) -> int:
        """The bytes that had to be fetched."""
        pairs = zip(accesses, self.hits, strict=True)
        return sum(a.bytes for a, hit in pairs if not hit and not a.writes)

    @property
    def written_bytes(self) -> int:
        """The bytes that were written back."""
        return sum(size for left in self.written_back for _, size in left)


def policy_named(
    policy: str | Callable[[Sequence[str]], EvictionPolicy],
) -> Callable[[Sequence[str]], EvictionPolicy]:
    """The policy of a name; a class of one's own is taken as it is."""
    if callable(policy):
        return policy
    if policy not in POLICIES:
        raise ConfigError(f"no policy {policy!r}; {nearest(str(policy), POLICIES)}")
    return POLICIES[policy]


def cached(
    accesses: Sequence[Access],
    capacity: int,
    policy: str | Callable[[Sequence[str]], EvictionPolicy] = "lru",
) -> CacheOutcome:
    """Runs a cache of `capacity` bytes over all uses, in order.

    A tensor larger than the cache passes it by. What was changed in the cache is written back when it
    leaves, and at the end stays where it is.
    """
    chooser = policy_named(policy)([a.key for a in accesses])
    held: dict[str, int] = {}
    changed: set[str] = set()
    free, out = capacity, CacheOutcome()
    for now, (key, size, writes) in enumerate(accesses):
        left: list[tuple[str, int]] = []
        hit = key in held
        if not hit and size <= capacity:
            while size > free:
                victim = chooser.victim()
                chooser.dropped(victim)
                free += held[victim]
                if victim in changed:
                    left.append((victim, held[victim]))
                    changed.discard(victim)
                del held[victim]
            held[key] = size
            free -= size
        if key in held:
            chooser.used(key, now)
            if writes:
                changed.add(key)
        elif writes:
            left.append((key, size))
        out.hits.append(hit)
        out.written_back.append(left)
        out.peak_bytes = max(out.peak_bytes, capacity - free)
    return out
