"""Who is always late: ranks that stand alone among their peers in when they come or how long they stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.hangs.board import DONE, Board

_FEWEST_RANKS = 4
_FEWEST_CALLS = 8
_DEVIATIONS = 8.0
"""Robust deviations (1.4826 × MAD over ranks) a rank must be off; jitter of thousands stays below 6."""
_SHARE = 0.05
"""And by this share of the time between calls."""
_STEADY = 0.7
"""And in this share of its calls."""
_FEW = 0.05
"""And with no more company than this share of the ranks: many late ones are a matter of placement."""
_NORMAL = 1.4826
_WINDOWS = (1.0, 0.5, 0.25)
"""Shares of the recording that are looked at: a rank may have become slow only near its end."""


@dataclass(frozen=True)
class Late:
    """A slow rank: how many times the usual it takes, since which call."""

    rank: int
    factor: float
    row: int


@dataclass(frozen=True, eq=False)
class _Sheet:
    """Meetings of one group in which everybody took part: one line per meeting, one column per rank.

    `came` is how far behind the median rank each one came; `stayed` how much shorter than the median
    rank it stayed, which needs no common clock: who comes last waits for nobody.
    """

    ranks: I64
    rows: I64
    came: F64
    stayed: F64


def find_late(board: Board) -> list[Late]:
    """Lone outliers, worst first.

    A rank counts only if it is late in all its groups, because those who wait for it are themselves
    late elsewhere.
    """
    sheets = _sheets(board)
    period = _period(board)
    measures = ([s.stayed for s in sheets], [s.came for s in sheets], [-s.stayed for s in sheets])
    for measure in measures:
        found: dict[int, Late] = {}
        for share in _WINDOWS:
            for late in _outliers(board, sheets, measure, share, period):
                found.setdefault(late.rank, late)
        if found:
            return sorted(found.values(), key=lambda x: -x.factor)
    return []


def _sheets(board: Board) -> list[_Sheet]:
    """The groups in which ranks can be compared."""
    if not len(board):
        return []
    first = board.order[board.bounds[:-1]]
    group, here = board.group[first], np.diff(board.bounds)
    size = np.array([len(m) for m in board.members] or [0], np.int64)[group]
    done = board.per_meeting(np.minimum, (board.state == DONE) | (board.state < 0))
    timed = board.per_meeting(np.minimum, board.end > board.start)
    whole = (here == size) & (size >= _FEWEST_RANKS) & done.astype(np.bool_)
    chosen = np.flatnonzero(whole & timed.astype(np.bool_))
    if not len(chosen):
        return []
    cuts = np.flatnonzero(np.r_[True, group[chosen[1:]] != group[chosen[:-1]]]).tolist()
    spans = zip(cuts, [*cuts[1:], len(chosen)], strict=True)
    return [
        _sheet(board, chosen[a:b], int(size[chosen[a]])) for a, b in spans if b - a >= _FEWEST_CALLS
    ]


def _sheet(board: Board, meetings: I64, ranks: int) -> _Sheet:
    rows = board.order[board.bounds[meetings][:, None] + np.arange(ranks)]
    start = board.start[rows].astype(np.float64)
    stay = (board.end[rows] - board.start[rows]).astype(np.float64)
    return _Sheet(
        board.rank[rows[0]],
        rows,
        start - np.median(start, axis=1, keepdims=True),
        np.median(stay, axis=1, keepdims=True) - stay,
    )


def _period(board: Board) -> float:
    """The usual time between two calls of a rank."""
    same = board.rank[1:] == board.rank[:-1]
    gaps = np.diff(board.start)[same]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _outliers(
    board: Board, sheets: list[_Sheet], measure: list[F64], share: float, period: float
) -> list[Late]:
    judged: Counter[int] = Counter()
    off: dict[int, list[float]] = {}
    for sheet, values in zip(sheets, measure, strict=True):
        recent = values[-max(_FEWEST_CALLS, int(share * len(values))) :]
        typical = np.median(recent, axis=0)
        judged.update(sheet.ranks.tolist())
        for column in np.flatnonzero(_far(typical, period)).tolist():
            off.setdefault(int(sheet.ranks[column]), []).append(float(typical[column]))
    late = [rank for rank, by in off.items() if len(by) == judged[rank]]
    if not 0 < len(late) <= max(1, _FEW * len(judged)):
        return []
    found = (_late(board, sheets, measure, r, max(off[r]), share, period) for r in late)
    return [x for x in found if x is not None]


def _far(typical: F64, period: float) -> Mask:
    """Which ranks are far from the others of their group."""
    off = typical - np.median(typical)
    spread = _NORMAL * float(np.median(np.abs(off)))
    far: Mask = off > max(_DEVIATIONS * spread, _SHARE * period)
    return far


def _late(
    board: Board,
    sheets: list[_Sheet],
    measure: list[F64],
    rank: int,
    by: float,
    share: float,
    period: float,
) -> Late | None:
    rows, late = _calls_of(sheets, measure, rank, by / 2)
    recent = late[-max(_FEWEST_CALLS, int(share * len(late))) :]
    if recent.mean() < _STEADY:
        return None
    # Where lateness outweighs punctuality most, it began.
    worth = np.where(late, 1.0, -2.0)[::-1].cumsum()[::-1]
    return Late(rank, 1 + by / period if period else 1.0, int(rows[int(np.argmax(worth))]))


def _calls_of(sheets: list[_Sheet], measure: list[F64], rank: int, by: float) -> tuple[I64, Mask]:
    """A rank's calls in the order it issued them, and which of them were late."""
    rows, late = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for sheet, values in zip(sheets, measure, strict=True):
        for column in np.flatnonzero(sheet.ranks == rank).tolist():
            rows.append(sheet.rows[:, column])
            late.append(values[:, column] > by)
    joined, flags = np.concatenate(rows), np.concatenate(late)
    order = np.argsort(joined, kind="stable")  # a rank's rows are in the order of issue
    return joined[order], flags[order]
