"""One clock for all ranks: collectives that end everywhere at once show how far clocks are apart.

Recordings may also begin and end at different calls: `align_windows` finds which call of one rank is which of
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64
from chakrakit.sources.pytorch.calls import RecordedCollective


@dataclass(frozen=True)
class RankCollectives:
    """A rank's collectives with their times, and where it was recorded."""

    collectives: Sequence[RecordedCollective]
    start: Sequence[int]
    end: Sequence[int]
    host: str = ""


@dataclass
class ClockOffsets:
    """`offset[rank]` is added to a rank's times; `skew_ns` is what then still differs."""

    offset: dict[int, int]
    matched: int = 0
    skew_ns: dict[str, int] = field(default_factory=dict)
    rule: str = "none"


def align_clocks(ranks: Mapping[int, RankCollectives]) -> ClockOffsets:
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
            reference = waiting.pop(0)
            for rank, apart in _apart(ranks, ends, reference, set(ranks) - set(offset)):
                offset[rank] = offset[reference] + apart
                waiting.append(rank)
    moved = any(offset.values())
    return ClockOffsets(
        offset, len(ends), _skew(ends, offset), "collectives" if moved else "same clock"
    )


def _ends(ranks: Mapping[int, RankCollectives]) -> dict[tuple[str, int], dict[int, int]]:
    """(group, sequence) → when each rank saw it end; only those that end everywhere at once."""
    out: dict[tuple[str, int], dict[int, int]] = {}
    for rank, recorded in ranks.items():
        for c, end in zip(recorded.collectives, recorded.end, strict=True):
            if c.kind >= 0 and not c.is_message and c.group is not None:
                out.setdefault((c.group, c.sequence), {})[rank] = end
    return {key: end_on for key, end_on in out.items() if len(end_on) > 1}


def _apart(
    ranks: Mapping[int, RankCollectives],
    ends: Mapping[tuple[str, int], dict[int, int]],
    reference: int,
    candidates: set[int],
) -> list[tuple[int, int]]:
    """(rank, ns behind the reference) for the candidates whose clocks can be compared with its clock."""
    apart: dict[int, list[int]] = {}
    for end_on in ends.values() if candidates else ():
        if reference in end_on:
            for rank in end_on.keys() & candidates:
                apart.setdefault(rank, []).append(end_on[reference] - end_on[rank])
    same = {r for r in candidates if ranks[r].host and ranks[r].host == ranks[reference].host}
    behind = {r: int(np.median(end_on)) for r, end_on in apart.items()} | dict.fromkeys(same, 0)
    return sorted(behind.items())


def _skew(
    ends: Mapping[tuple[str, int], dict[int, int]], offset: Mapping[int, int]
) -> dict[str, int]:
    spread = []
    for end_on in ends.values():
        aligned = [end + offset[rank] for rank, end in end_on.items()]
        spread.append(max(aligned) - min(aligned))
    if not spread:
        return {}
    return {"median": int(np.median(spread)), "largest": int(max(spread))}


_FARTHEST = 64
"""Calls by which the beginnings of two recordings may differ; every shift up to it is tried."""


def align_windows(ranks: Mapping[int, RankCollectives], base_ns: Mapping[int, int]) -> int:
    """Move counted sequence numbers so that calls which end together have the same one.

    Numbers that are counted begin with each rank's own recording. Where ranks have different numbers
    of calls in a group, the shift is taken under which the kinds agree and the ends are closest; the
    clocks must be comparable for that. Returns how many (group, rank) were moved.
    """
    if any(base <= 0 for base in base_ns.values()):
        return 0
    groups: dict[str, dict[int, list[int]]] = {}
    for rank, recorded in ranks.items():
        for i, c in enumerate(recorded.collectives):
            if c.group is not None and not c.is_message:
                groups.setdefault(c.group, {}).setdefault(rank, []).append(i)
    return sum(_align_group(ranks, base_ns, members) for members in groups.values())


def _align_group(
    ranks: Mapping[int, RankCollectives],
    base_ns: Mapping[int, int],
    members: Mapping[int, list[int]],
) -> int:
    counted = all(
        sorted(ranks[r].collectives[i].sequence for i in rows) == list(range(len(rows)))
        for r, rows in members.items()
    )
    if not counted or len({len(rows) for rows in members.values()}) < 2:
        return 0
    longest = max(members, key=lambda r: len(members[r]))
    facts = {r: _facts(ranks[r], rows, base_ns[r]) for r, rows in members.items()}
    shifts = {r: _shift(facts[longest], facts[r]) for r in members}
    lowest = min(shifts.values())
    for rank, rows in members.items():
        for i in rows:
            ranks[rank].collectives[i].sequence += shifts[rank] - lowest
    return sum(shift != 0 for shift in shifts.values())


def _facts(recorded: RankCollectives, rows: list[int], base: int) -> tuple[I64, I64]:
    """Kinds and ends of a rank's calls in the order of their numbers."""
    ordered = sorted(rows, key=lambda i: recorded.collectives[i].sequence)
    return (
        np.array([recorded.collectives[i].kind for i in ordered], np.int64),
        np.array([recorded.end[i] + base for i in ordered], np.int64),
    )


def _shift(reference: tuple[I64, I64], mine: tuple[I64, I64]) -> int:
    """By how many calls `mine` begins after the reference."""
    best, smallest = 0, np.inf
    for shift in range(-_FARTHEST, _FARTHEST + 1):
        first, last = max(0, shift), min(len(reference[0]), len(mine[0]) + shift)
        if last - first < max(1, min(len(reference[0]), len(mine[0])) // 2):
            continue
        theirs, ours = slice(first, last), slice(first - shift, last - shift)
        if not np.array_equal(reference[0][theirs], mine[0][ours]):
            continue
        apart = float(np.median(np.abs(reference[1][theirs] - mine[1][ours])))
        if apart < smallest:
            best, smallest = shift, apart
    return best
