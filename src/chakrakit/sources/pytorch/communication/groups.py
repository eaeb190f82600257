"""Process groups: what the files say of them, and what can be told only by looking at all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chakrakit.sources.pytorch.communication.calls import Collective, told_size
from chakrakit.sources.pytorch.communication.clocks import Recorded
from chakrakit.sources.pytorch.read import Kineto, Observer

Groups = dict[str, tuple[int, ...]]


def groups_of(observer: Observer | None, kineto: Kineto | None, world: int) -> Groups:
    """Groups a rank knows; an empty list of ranks means all of them."""
    said: list[dict[str, Any]] = []
    if kineto is not None:
        said += kineto.distributed.get("pg_config") or []
        world = max(world, int(kineto.distributed.get("world_size", 0)))
    if observer is not None:
        said += observer.groups()
    out: Groups = {}
    for group in said:
        size = int(group.get("group_size", group.get("pg_size", 0)) or 0)
        ranks = tuple(int(r) for r in group.get("ranks") or range(max(size, world)))
        if ranks:
            out.setdefault(str(group.get("pg_name", "")), ranks)
    return out


def infer_across_ranks(ranks: Mapping[int, Recorded], groups: Groups) -> int:
    """Choose, for collectives that name no group, the one whose members did it at the same time.

    Candidates are the groups a rank is in. Of those, members must have issued the same collectives
    in the same order; where several fit, the ends lie closest together in the true one. Returns how
    many were decided; they are marked as inferred.
    """
    decided = 0
    for rank in sorted(ranks):
        open_ones = _open(ranks[rank])
        if open_ones:
            best = _closest(rank, ranks, groups)
            for members, name in best:
                decided += _settle(ranks, members, name)
    return decided


def _open(seen: Recorded) -> list[int]:
    return [i for i, c in enumerate(seen.collectives) if c.group is None and not c.is_message]


def _pattern(seen: Recorded) -> list[tuple[int, int]]:
    return [(seen.collectives[i].kind, seen.collectives[i].in_bytes) for i in _open(seen)]


def _closest(
    rank: int, ranks: Mapping[int, Recorded], groups: Groups
) -> list[tuple[tuple[int, ...], str]]:
    """The best fitting group, if any, with its members that were recorded."""
    scored = []
    for name, all_members in groups.items():
        members = tuple(r for r in all_members if r in ranks)
        if rank not in members or len(members) < 2:
            continue
        patterns = [_pattern(ranks[r]) for r in members]
        if all(p == patterns[0] for p in patterns) and _sizes_fit(ranks[rank], len(all_members)):
            scored.append((_spread(ranks, members), len(all_members), members, name))
    return [(scored_best[2], scored_best[3]) for scored_best in sorted(scored)[:1]]


def _sizes_fit(seen: Recorded, size: int) -> bool:
    """A gather's output is as many times its input as there are members."""
    sizes = (told_size(seen.collectives[i]) for i in _open(seen))
    return all(s is None or s == size for s in sizes)


def _spread(ranks: Mapping[int, Recorded], members: tuple[int, ...]) -> float:
    ends = np.array([[ranks[r].end[i] for i in _open(ranks[r])] for r in members], np.float64)
    return float((ends.max(axis=0) - ends.min(axis=0)).mean())


def _settle(ranks: Mapping[int, Recorded], members: tuple[int, ...], name: str) -> int:
    count = 0
    for member in members:
        for i in _open(ranks[member]):
            c: Collective = ranks[member].collectives[i]
            c.group, c.inferred = name, True
            count += 1
    return count
