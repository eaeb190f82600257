"""Recorders of communication asked who hangs, who differs and who is slow."""

from __future__ import annotations

import msgspec

from chakrakit.insight.hangs.absences import find_absences
from chakrakit.insight.hangs.board import Board
from chakrakit.insight.hangs.differences import find_differences
from chakrakit.insight.hangs.lateness import find_late


class Culprit(msgspec.Struct, kw_only=True):
    """Who is to blame, and for what; fields that do not apply are None."""

    kind: str
    rank: int | None = None
    link: str | None = None
    collective: str | None = None
    since_step: int | None = None
    factor: float | None = None


def culprits(board: Board) -> list[Culprit]:
    """The root causes of an incomplete or slow recording, surest first.

    A rank whose call differs from its group's explains why others wait, so ranks that never arrived
    are then only named if there is no recording of them. Slow ranks are looked for where nothing is
    wrong, because everybody waits in a recording that hangs.
    """
    different = find_differences(board)
    absent = [a for a in find_absences(board) if a.dead or not different]
    found = [_at(board, d.what, d.rank, d.row) for d in different]
    found += [_at(board, "dead" if a.dead else "missing", a.rank, a.row) for a in absent]
    if not found:
        found = [_at(board, "slow", x.rank, x.row, round(x.factor, 3)) for x in find_late(board)]
    return found


def _at(board: Board, kind: str, rank: int, row: int, factor: float | None = None) -> Culprit:
    where = board.label(row) if row >= 0 else None
    since = int(board.seq[row]) if row >= 0 else None
    return Culprit(kind=kind, rank=rank, collective=where, since_step=since, factor=factor)
