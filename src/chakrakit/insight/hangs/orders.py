"""Ranks that make the calls of two groups in another order than others that are in both."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.insight.hangs.board import Board


def find_misordered(board: Board) -> list[int]:
    """For each rank that differs from most, its first call that most make at another time.

    Two ranks of the same two groups that call them in opposite orders wait for each other, although
    the calls of either group are numbered alike. Calls that not all ranks of both recorded, because a
    ring dropped them or they were not made yet, say nothing. One against one is settled by the order
    of other pairs of groups.
    """
    begins = np.searchsorted(board.rank, board.recorded)
    ends = np.searchsorted(board.rank, board.recorded, side="right")
    rows_of = {
        r: np.arange(a, b) for r, a, b in zip(board.recorded.tolist(), begins, ends, strict=True)
    }
    calls = [
        [_of_groups(board, rows_of[r], groups) for r in ranks]
        for groups, ranks in _pairs(board).items()
    ]
    mixed = [orders for each in calls if (orders := _orders(board, each))]
    usual = Counter(_shape(board, rows) for each in calls if mixed for rows in each)
    found: dict[int, int] = {}
    for orders in mixed:
        for row in _unusual(board, orders, usual):
            rank = int(board.rank[row])
            found[rank] = min(row, found.get(rank, row))
    return sorted(found.values(), key=lambda row: int(board.start[row]))


def _pairs(board: Board) -> dict[tuple[int, int], list[int]]:
    """The recorded ranks of every two groups that have at least two of them in common."""
    recorded = set(board.recorded.tolist())
    groups_of: dict[int, list[int]] = {}
    for group, members in enumerate(board.members):
        for rank in members.tolist():
            if rank in recorded:
                groups_of.setdefault(rank, []).append(group)
    pairs: dict[tuple[int, int], list[int]] = {}
    for rank in sorted(groups_of):
        for pair in combinations(groups_of[rank], 2):
            pairs.setdefault(pair, []).append(rank)
    return {pair: ranks for pair, ranks in pairs.items() if len(ranks) > 1}


def _of_groups(board: Board, rows: I64, groups: tuple[int, int]) -> I64:
    group = board.group[rows]
    chosen: I64 = rows[(group == groups[0]) | (group == groups[1])]
    return chosen


def _orders(board: Board, calls: list[I64]) -> list[I64]:
    """The calls that all ranks made, rank by rank in the order of issue; none where all agree."""
    keys = [board.key[rows] for rows in calls]
    if all(np.array_equal(keys[0], other) for other in keys[1:]):
        return []
    shared, times = np.unique(np.concatenate(keys), return_counts=True)
    shared = shared[times == len(calls)]
    common = [rows[np.isin(k, shared)] for rows, k in zip(calls, keys, strict=True)]
    first = board.key[common[0]]
    return [] if all(np.array_equal(first, board.key[rows]) for rows in common[1:]) else common


def _shape(board: Board, rows: I64) -> bytes:
    """An order without the names of its two groups, as like pairs of groups share it."""
    own = (board.group[rows] == board.group[rows].max()).astype(np.int64)
    return np.stack([own, board.seq[rows], board.nth[rows]]).tobytes()


def _unusual(board: Board, orders: list[I64], usual: Counter[bytes]) -> list[int]:
    """The first call out of order of each rank that differs from most."""
    count = Counter(board.key[rows].tobytes() for rows in orders)
    most = max(
        orders, key=lambda rows: (count[board.key[rows].tobytes()], usual[_shape(board, rows)])
    )
    out = []
    for rows in orders:
        differ = np.flatnonzero(board.key[rows] != board.key[most])
        if len(differ):
            out.append(int(rows[differ[0]]))
    return out
