"""Calls that should be the same on all ranks of a group and are not: order, type, size, element type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from chakrakit.insight.hangs.board import Board, Signature

_MOST_MEETINGS = 20_000
"""A group that has lost step differs in every meeting from there on; the first ones tell all."""
_LOOK_AHEAD = 6


@dataclass(frozen=True)
class Difference:
    """The first call in which a rank differs from its group: `what` is order, type or size."""

    what: str
    rank: int
    row: int


def find_differences(board: Board) -> list[Difference]:
    """For each rank that differs from most of its group, the earliest such call in a group."""
    found: dict[tuple[int, int], Difference] = {}
    for meeting in _mixed(board):
        for row in _minority(board, meeting):
            key = int(board.rank[row]), int(board.group[row])
            if key not in found:
                what = _what(board, meeting, int(row))
                found[key] = Difference(what, key[0], int(row))
    return sorted(found.values(), key=lambda d: int(board.start[d.row]))


def _mixed(board: Board) -> list[int]:
    """Meetings in which not all calls are the same, in order of time."""
    if not len(board):
        return []
    sign = board.sign
    differ = board.per_meeting(np.minimum, sign) != board.per_meeting(np.maximum, sign)
    mixed = np.flatnonzero(differ)
    begun = board.per_meeting(np.minimum, board.start)[mixed]
    return [int(m) for m in mixed[np.argsort(begun, kind="stable")][:_MOST_MEETINGS]]


def _minority(board: Board, meeting: int) -> list[int]:
    """The calls that differ from the most common one.

    Two against two are settled by what other groups of the same length do at the same number; where
    that does not help either, the higher ranks are named.
    """
    rows = board.rows(meeting).tolist()
    count = Counter(board.signature(r) for r in rows)
    best = max(count.values())
    leading = [facts for facts, n in count.items() if n == best]
    usual = leading[0] if len(leading) == 1 else _elsewhere(board, rows, leading)
    return [r for r in rows if board.signature(r) != usual]


def _elsewhere(board: Board, rows: list[int], leading: list[Signature]) -> Signature:
    seq = int(board.seq[rows[0]])
    length = len(board.members[int(board.group[rows[0]])])
    alike = [g for g, ranks in enumerate(board.members) if len(ranks) == length]
    others = np.flatnonzero((board.seq == seq) & np.isin(board.group, alike))
    count = Counter(board.signature(int(r)) for r in others)
    return max(leading, key=lambda facts: (count[facts], -rows.index(_first(board, rows, facts))))


def _first(board: Board, rows: list[int], facts: Signature) -> int:
    return next(r for r in rows if board.signature(r) == facts)


def _what(board: Board, meeting: int, row: int) -> str:
    """Order, if the rank's next calls are its group's in another order; else what differs first."""
    mine, usual = board.signature(row), _usual(board, meeting)
    if _out_of_step(board, row):
        return "order"
    if mine.kind != usual.kind or mine.dtype != usual.dtype:
        return "type"
    return "size"


def _usual(board: Board, meeting: int) -> Signature:
    return Counter(board.signature(r) for r in board.rows(meeting).tolist()).most_common(1)[0][0]


def _out_of_step(board: Board, row: int) -> bool:
    """Whether the same few calls follow on the rank and on a peer, but in another order."""
    rank, group, seq = (int(a[row]) for a in (board.rank, board.group, board.seq))
    meeting = board.meeting_of(row)
    peers = [int(board.rank[r]) for r in board.rows(meeting) if board.rank[r] != rank]
    usual = _usual(board, meeting)
    peer = next(
        (
            int(board.rank[r])
            for r in board.rows(meeting)
            if board.signature(int(r)) == usual and board.rank[r] != rank
        ),
        peers[0] if peers else -1,
    )
    mine, theirs = (_coming(board, r, group, seq) for r in (rank, peer))
    for n in range(2, min(len(mine), len(theirs)) + 1):
        if mine[:n] != theirs[:n] and Counter(mine[:n]) == Counter(theirs[:n]):
            return True
    shifted = min(len(mine), len(theirs)) - 1
    if shifted < 2 or mine[1:] == theirs[1:]:
        return False  # one call differs and the rest agrees
    return mine[:shifted] == theirs[1 : shifted + 1] or mine[1 : shifted + 1] == theirs[:shifted]


def _coming(board: Board, rank: int, group: int, seq: int) -> list[Signature]:
    rows = np.flatnonzero(
        (board.rank == rank)
        & (board.group == group)
        & (board.seq >= seq)
        & (board.seq < seq + _LOOK_AHEAD)
    )
    rows = rows[np.lexsort((board.nth[rows], board.seq[rows]))]
    return [board.signature(int(r)) for r in rows]
