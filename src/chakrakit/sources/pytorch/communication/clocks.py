"""One clock for all ranks: what ends everywhere at once tells how far clocks are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.sources.pytorch.communication.calls import Collective


@dataclass(frozen=True)
class Recorded:
    """A rank's collectives with their times, and where it was recorded."""

    collectives: Sequence[Collective]
    start: Sequence[int]
    end: Sequence[int]
    host: str = ""


@dataclass
class Clock:
    """`offset[rank]` is added to a rank's times; `skew_ns` is what then still differs."""

    offset: dict[int, int]
    matched: int = 0
    skew_ns: dict[str, int] = field(default_factory=dict)
    rule: str = "none"


def align_clocks(ranks: Mapping[int, Recorded]) -> Clock:
    """Offsets against the lowest rank of every connected set of ranks.

    Ranks on one host share a clock and are not moved. Others are moved by the median difference of
    the ends of the collectives they share, along the shortest chain of such pairs.
    """
    ends = _ends(ranks)
    offset: dict[int, int] = {}
    for first in sorted(ranks):
        if first in offset:
            continue
        offset[first] = 0
        waiting = [first]
        while waiting:
            here = waiting.pop(0)
            for other, apart in _apart(ranks, ends, here, set(ranks) - set(offset)):
                offset[other] = offset[here] + apart
                waiting.append(other)
    moved = any(offset.values())
    return Clock(offset, len(ends), _skew(ends, offset), "collectives" if moved else "same clock")


def _ends(ranks: Mapping[int, Recorded]) -> dict[tuple[str, int], dict[int, int]]:
    """(group, sequence) → when each rank saw it end; only those that end everywhere at once."""
    out: dict[tuple[str, int], dict[int, int]] = {}
    for rank, seen in ranks.items():
        for c, end in zip(seen.collectives, seen.end, strict=True):
            if c.kind >= 0 and not c.is_message and c.group is not None:
                out.setdefault((c.group, c.sequence), {})[rank] = end
    return {key: found for key, found in out.items() if len(found) > 1}


def _apart(
    ranks: Mapping[int, Recorded],
    ends: Mapping[tuple[str, int], dict[int, int]],
    here: int,
    others: set[int],
) -> list[tuple[int, int]]:
    """How far those of the others whose clocks can be compared with this rank's are behind it."""
    apart: dict[int, list[int]] = {}
    for found in ends.values() if others else ():
        if here in found:
            for other in found.keys() & others:
                apart.setdefault(other, []).append(found[here] - found[other])
    same = {r for r in others if ranks[r].host and ranks[r].host == ranks[here].host}
    known = {r: int(np.median(found)) for r, found in apart.items()} | dict.fromkeys(same, 0)
    return sorted(known.items())


def _skew(
    ends: Mapping[tuple[str, int], dict[int, int]], offset: Mapping[int, int]
) -> dict[str, int]:
    spread = []
    for found in ends.values():
        there = [end + offset[rank] for rank, end in found.items()]
        spread.append(max(there) - min(there))
    if not spread:
        return {}
    return {"median": int(np.median(spread)), "largest": int(max(spread))}
