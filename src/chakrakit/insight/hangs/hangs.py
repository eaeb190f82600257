"""Recorders of communication asked who hangs, who differs and who is slow."""

from __future__ import annotations

from chakrakit.insight.diagnosis import Culprit, CulpritKind
from chakrakit.insight.hangs.absences import Absence, find_absences
from chakrakit.insight.hangs.board import Board
from chakrakit.insight.hangs.differences import Difference, find_differences
from chakrakit.insight.hangs.lateness import Late, find_late
from chakrakit.insight.hangs.orders import find_misordered

_KINDS: dict[str, CulpritKind] = {
    "order": "order-mismatch",
    "size": "size-mismatch",
    "type": "type-mismatch",
}


def hang_culprits(board: Board) -> list[Culprit]:
    """The root causes of an incomplete or slow recording, surest first.

    A rank whose call differs from its group's explains why others wait, so ranks that never arrived
    are then only named if there is no recording of them. Slow ranks are looked for where nothing is
    wrong, because everybody waits in a recording that hangs.
    """
    different = find_differences(board) or _misordered(board)
    absent = [a for a in find_absences(board) if a.dead or not different]
    found = [_different(board, d) for d in different] + [_absent(board, a) for a in absent]
    return found or [_late(board, x) for x in find_late(board)]


def _misordered(board: Board) -> list[Difference]:
    return [Difference("order", int(board.rank[row]), row) for row in find_misordered(board)]


def _different(board: Board, d: Difference) -> Culprit:
    return Culprit(
        kind=_KINDS[d.what],
        rank=d.rank,
        collective=board.label(d.row),
        since_step=int(board.seq[d.row]),
        detail=f"rank {d.rank} calls {board.label(d.row)} with another {d.what} than its group",
    )


def _absent(board: Board, a: Absence) -> Culprit:
    where = board.label(a.row) if a.row >= 0 else None
    why = "there is no recording of it" if a.dead else "it waits in no collective itself"
    return Culprit(
        kind="dead-rank" if a.dead else "missing-rank",
        rank=a.rank,
        collective=where,
        since_step=int(board.seq[a.row]) if a.row >= 0 else None,
        detail=f"rank {a.rank} never arrived at {where or 'any collective'}: {why}",
    )


def _late(board: Board, x: Late) -> Culprit:
    return Culprit(
        kind="slow-rank",
        rank=x.rank,
        collective=board.label(x.row),
        since_step=int(board.seq[x.row]),
        factor=round(x.factor, 3),
        detail=f"rank {x.rank} makes the others wait in all its groups since {board.label(x.row)}",
    )
