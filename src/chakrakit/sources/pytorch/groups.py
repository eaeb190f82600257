"""Process groups: as the files describe them, and as inferred by comparing all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chakrakit.errors import FormatError
from chakrakit.sources.pytorch.calls import RecordedCollective, implied_group_size
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.sources.pytorch.read import Kineto, Observer, whole
from chakrakit.trace.communication import MAX_RANKS

Groups = dict[str, tuple[int, ...]]


def groups_of(observer: Observer | None, kineto: Kineto | None, world: int) -> Groups:
    """Groups a rank knows; an empty list of ranks means all of them."""
    descriptions: list[Any] = []
    if kineto is not None:
        config = kineto.distributed.get("pg_config") or []
        descriptions += config if isinstance(config, list) else [config]
        world = max(world, _count(kineto.distributed.get("world_size", 0), "world_size"))
    if observer is not None:
        descriptions += observer.groups()
    out: Groups = {}
    for group in descriptions:
        if not isinstance(group, dict):
            raise FormatError(
                f"{str(group)[:40]!r} is listed among the process groups and is not one"
            )
        name = str(group.get("pg_name", ""))
        ranks = tuple(dict.fromkeys(_members(group, name, world)))
        if ranks:
            out.setdefault(name, ranks)
    return out


_MOST_RANKS = 1 << 20
"""A million ranks, more than any job; lists for a damaged file's larger number would fill memory."""


def _members(group: dict[str, Any], name: str, world: int) -> tuple[int, ...]:
    """The ranks of a group; where none are listed it has all there are."""
    size = _count(group.get("group_size", group.get("pg_size", 0)) or 0, f"size of group {name!r}")
    listed = group.get("ranks") or range(max(size, world))
    if not isinstance(listed, list | range):
        raise FormatError(f"process group {name!r}: ranks is {str(listed)[:40]!r}, not a list")
    return tuple(listed) if isinstance(listed, range) else tuple(_rank(r, name) for r in listed)


def _rank(member: object, group: str) -> int:
    rank = whole(member, MAX_RANKS - 1)
    if rank is None or rank < 0:
        raise FormatError(
            f"process group {group!r} lists {str(member)[:40]!r}, which is not a rank"
        )
    return rank


def _count(recorded: object, field: str) -> int:
    count = whole(recorded, _MOST_RANKS)
    if count is None or count < 0:
        raise FormatError(
            f"{field} is {str(recorded)[:40]!r}; it should be 0 to {_MOST_RANKS:,} ranks"
        )
    return count


def infer_across_ranks(ranks: Mapping[int, RankCollectives], groups: Groups) -> int:
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
                decided += _assign_group(ranks, members, name)
    return decided


def _open(recorded: RankCollectives) -> list[int]:
    return [i for i, c in enumerate(recorded.collectives) if c.group is None and not c.is_message]


def _pattern(recorded: RankCollectives) -> list[tuple[int, int]]:
    return [
        (recorded.collectives[i].kind, recorded.collectives[i].in_bytes) for i in _open(recorded)
    ]


def _closest(
    rank: int, ranks: Mapping[int, RankCollectives], groups: Groups
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


def _sizes_fit(recorded: RankCollectives, size: int) -> bool:
    """A gather's output is as many times its input as there are members."""
    sizes = (implied_group_size(recorded.collectives[i]) for i in _open(recorded))
    return all(s is None or s == size for s in sizes)


def _spread(ranks: Mapping[int, RankCollectives], members: tuple[int, ...]) -> float:
    ends = np.array([[ranks[r].end[i] for i in _open(ranks[r])] for r in members], np.float64)
    return float((ends.max(axis=0) - ends.min(axis=0)).mean())


def _assign_group(ranks: Mapping[int, RankCollectives], members: tuple[int, ...], name: str) -> int:
    count = 0
    for member in members:
        for i in _open(ranks[member]):
            c: RecordedCollective = ranks[member].collectives[i]
            c.group, c.inferred = name, True
            count += 1
    return count
