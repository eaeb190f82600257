"""Who is always late: ranks that stand alone among their peers in when they come or how long they stay."""

from __future__ import annotations

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


def find_late(board: Board) -> list[Late]:
    """Lone outliers, worst first.

    Two measures are tried on completed collectives of which all ranks were recorded: how far behind the
    median rank each one came, and how much shorter than the median rank it stayed, which needs no
    common clock: who comes last waits for nobody. A rank counts only if it is late in all its groups,
    because those who wait for it are themselves late elsewhere.
    """
    rows = _comparable(board)
    if not len(rows):
        return []
    period = _period(board, rows)
    came = board.start.astype(np.float64) - _median_of_meeting(board, rows, board.start)
    stay = (board.end - board.start).astype(np.float64)
    stayed = _median_of_meeting(board, rows, board.end - board.start) - stay
    found: dict[int, Late] = {}
    for measure in (stayed, came, -stayed):
        for share in _WINDOWS:
            for late in _outliers(board, _latest(board, rows, share), measure, period):
                found.setdefault(late.rank, late)
        if found:
            break
    return sorted(found.values(), key=lambda x: -x.factor)


def _comparable(board: Board) -> I64:
    """Completed calls of meetings in which everybody took part."""
    if not len(board):
        return np.zeros(0, np.int64)
    size = np.array([len(m) for m in board.members] or [0], np.int64)[board.group]
    here = np.diff(board.bounds)[board.meeting]
    done = board.per_meeting(np.minimum, (board.state == DONE) | (board.state < 0))[board.meeting]
    timed = board.per_meeting(np.minimum, (board.end > board.start))[board.meeting]
    whole = (
        (here == size) & (size >= _FEWEST_RANKS) & done.astype(np.bool_) & timed.astype(np.bool_)
    )
    return np.flatnonzero(whole)


def _latest(board: Board, rows: I64, share: float) -> I64:
    """The last calls, by when they began."""
    if share == 1.0:
        return rows
    first, last = int(board.start[rows].min()), int(board.start[rows].max())
    return rows[board.start[rows] >= last - share * (last - first)]


def _median_of_meeting(board: Board, rows: I64, values: I64) -> F64:
    """For every row of the board, the median of its meeting; 0 for rows that are not compared."""
    out = np.zeros(len(board))
    out[rows] = _grouped_median(board.meeting[rows], values[rows].astype(np.float64))
    return out


def _grouped_median(group: I64, values: F64) -> F64:
    order = np.lexsort((values, group))
    first = np.flatnonzero(np.r_[True, group[order][1:] != group[order][:-1]])
    sizes = np.diff(np.r_[first, len(order)])
    ranked = values[order]
    middle = (ranked[first + (sizes - 1) // 2] + ranked[first + sizes // 2]) / 2
    out = np.empty(len(order))
    out[order] = np.repeat(middle, sizes)
    return out


def _period(board: Board, rows: I64) -> float:
    """The usual time between two calls of a rank."""
    order = rows[np.lexsort((board.start[rows], board.rank[rows]))]
    same = board.rank[order[1:]] == board.rank[order[:-1]]
    gaps = np.diff(board.start[order])[same]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _outliers(board: Board, rows: I64, measure: F64, period: float) -> list[Late]:
    pairs, code = np.unique(
        np.stack([board.group[rows], board.rank[rows]]), axis=1, return_inverse=True
    )
    code = code.reshape(-1).astype(np.int64)
    count = np.bincount(code)
    typical = np.empty(len(count))
    typical[code] = _grouped_median(code, measure[rows])
    off = _off(pairs[0], typical, period) & (count >= _FEWEST_CALLS)
    late = _everywhere(pairs[1], off, count >= _FEWEST_CALLS)
    if not 0 < len(late) <= max(1, _FEW * len(np.unique(pairs[1]))):
        return []
    return [
        x
        for rank in late.tolist()
        if (x := _late(board, rows, measure, int(rank), typical[off & (pairs[1] == rank)], period))
    ]


def _off(group: I64, typical: F64, period: float) -> Mask:
    """Which (group, rank) is far from the others of its group."""
    centre = _grouped_median(group, typical)
    spread = _NORMAL * _grouped_median(group, np.abs(typical - centre))
    far: Mask = typical - centre > np.maximum(_DEVIATIONS * spread, _SHARE * period)
    return far


def _everywhere(rank: I64, off: Mask, judged: Mask) -> I64:
    """Ranks that are off in every group that can be judged."""
    fine = np.unique(rank[~off & judged])
    return np.setdiff1d(np.unique(rank[off]), fine)


def _late(
    board: Board, rows: I64, measure: F64, rank: int, typical: F64, period: float
) -> Late | None:
    mine = rows[board.rank[rows] == rank]
    mine = mine[np.argsort(board.issue[mine])]
    by = float(typical.max())
    late = measure[mine] > by / 2
    if late.mean() < _STEADY:
        return None
    every = np.flatnonzero(board.rank == rank)
    every = every[np.argsort(board.issue[every])]
    return Late(rank, 1 + by / period if period else 1.0, _since(every, measure[every] > by / 2))


def _since(rows: I64, late: Mask) -> int:
    """The call from which on nearly all were late: where lateness outweighs punctuality most."""
    worth = np.where(late, 1.0, -2.0)[::-1].cumsum()[::-1]
    return int(rows[int(np.argmax(worth))])
