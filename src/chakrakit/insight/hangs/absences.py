"""Who never arrived: collectives that some ranks wait in, and the ranks they wait for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.insight.hangs.board import DONE, Board

_FAR_BEHIND = 5
"""Calls by which one rank alone may lag behind all others when recordings end at different moments."""
_MOST_RECORDED = 0.5
"""A rank without a recording is missed only where most of its group have one."""


@dataclass(frozen=True)
class Absence:
    """A rank that a collective waits for, and which is not itself waiting for another.

    `dead` says that there is no recording of the rank; `row` is a call of the collective on a rank
    that arrived, -1 where nothing waits.
    """

    rank: int
    dead: bool
    row: int


@dataclass(frozen=True)
class _Stuck:
    """The first collective of a group that does not end."""

    group: int
    row: int
    absent: I64


def find_absences(board: Board) -> list[Absence]:
    """Root causes only: who waits elsewhere for somebody else is a victim.

    Recorders that do not say how far a call got may drop calls, so that nothing follows from those
    that are not there.
    """
    if not (board.state >= 0).any():
        return []
    stuck = _stuck(board)
    waiting = {int(r) for r in _first_open(board)}
    roots: dict[int, Absence] = {}
    recorded = set(board.recorded.tolist())
    for s in sorted(stuck, key=lambda s: int(board.start[s.row])):
        for rank in s.absent.tolist():
            if rank not in recorded or rank not in waiting:
                roots.setdefault(rank, Absence(rank, rank not in recorded, s.row))
    if not roots and stuck:
        roots = {a.rank: a for a in _circle(board, stuck)}
    for late in (*_never_recorded(board), *_far_behind(board)):
        roots.setdefault(late.rank, late)
    return sorted(roots.values(), key=lambda a: (not a.dead, a.rank))


def _open(board: Board) -> Mask:
    return (board.state >= 0) & (board.state < DONE)


def _stuck(board: Board) -> list[_Stuck]:
    """For each group the lowest number that is open somewhere and that a member has not reached."""
    is_open = _open(board)
    waiting = np.flatnonzero(board.per_meeting(np.maximum, is_open.astype(np.int64)))
    out: dict[int, _Stuck] = {}
    for meeting in waiting.tolist():
        rows = board.rows(meeting)
        group = int(board.group[rows[0]])
        if group in out:
            continue
        absent = np.setdiff1d(board.members[group], board.rank[rows])
        absent = absent[~_passed(board, group, int(board.seq[rows[0]]), absent)]
        if len(absent):
            out[group] = _Stuck(group, int(rows[np.argmax(is_open[rows])]), absent)
    return list(out.values())


def _passed(board: Board, group: int, seq: int, ranks: I64) -> Mask:
    """Ranks whose recording of the group goes on beyond a number: its ring dropped the call."""
    return np.array([board.last.get((group, r), -1) > seq for r in ranks.tolist()], np.bool_)


def _first_open(board: Board) -> I64:
    """Ranks that wait in a collective themselves."""
    return np.unique(board.rank[_open(board)])


def _circle(board: Board, stuck: list[_Stuck]) -> list[Absence]:
    """All who are missed wait elsewhere: the fewest that break the circle entered it out of order."""
    fewest = min(stuck, key=lambda s: (len(s.absent), int(board.start[s.row])))
    if len(fewest.absent) * 2 > len(board.members[fewest.group]):
        return []
    return [Absence(int(r), False, fewest.row) for r in fewest.absent]


def _never_recorded(board: Board) -> list[Absence]:
    """Members without a recording, of groups of which most have one."""
    out: dict[int, Absence] = {}
    for ranks in board.members:
        missing = np.setdiff1d(ranks, board.recorded)
        if len(missing) and len(missing) < (1 - _MOST_RECORDED) * len(ranks):
            for rank in missing.tolist():
                out[rank] = Absence(rank, True, -1)
    return list(out.values())


def _far_behind(board: Board) -> list[Absence]:
    """A rank whose recording of a group ends long before those of all others, which end together."""
    out: list[Absence] = []
    recorded = set(board.recorded.tolist())
    for group, ranks in enumerate(board.members):
        ends = {r: board.last.get((group, r), -1) for r in ranks.tolist() if r in recorded}
        if len(ends) < 3:
            continue
        values = np.sort(np.fromiter(ends.values(), np.int64))
        top, bulk = int(values[-1]), int(values[1])
        lone = min(ends, key=lambda r: ends[r])
        if top - bulk <= 2 and bulk - ends[lone] >= _FAR_BEHIND and ends[lone] >= 0:
            row = np.flatnonzero((board.group == group) & (board.seq == ends[lone] + 1))
            out.append(Absence(lone, False, int(row[0]) if len(row) else -1))
    return out
