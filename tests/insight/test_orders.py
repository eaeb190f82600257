"""Which of the ranks that are in two groups makes their calls in another order."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.insight.diagnosis.board import Board, CallSignature
from chakrakit.insight.diagnosis.hangs import find_misordered

WORLD, LEFT, RIGHT = range(3)


def board(*orders: list[tuple[int, int]]) -> Board:
    """Rank by rank its calls as (group, number); LEFT is ranks 0 and 1, RIGHT the others."""
    calls = [(rank, *call) for rank, order in enumerate(orders) for call in order]
    rank, group, seq = np.array(calls, np.int64).T
    ranks, none = np.arange(len(orders)), np.zeros(len(calls), np.int64)
    return Board(
        rank=rank, group=group, seq=seq, nth=none, sign=none, state=none + 2,
        start=np.arange(len(calls)), end=np.arange(len(calls)) + 1,
        signatures=[CallSignature(0, 0, 0, 0)], kind_names={}, group_names=["", "left", "right"],
        members=[ranks, ranks[:2], ranks[2:]], recorded=ranks, last={},
    )  # fmt: skip


def usual(group: int) -> list[tuple[int, int]]:
    return [(WORLD, 1), (group, 1), (WORLD, 2), (group, 2)]


def swapped(group: int) -> list[tuple[int, int]]:
    return [(WORLD, 1), (group, 1), (group, 2), (WORLD, 2)]


@pytest.mark.parametrize(
    ("orders", "culprits"),
    [
        ([usual(LEFT), usual(LEFT), usual(RIGHT), usual(RIGHT)], []),
        # Two of three agree.
        ([usual(LEFT), usual(LEFT), usual(RIGHT), swapped(RIGHT), usual(RIGHT)], [3]),
        # One against one: the other groups do as the higher rank does.
        ([swapped(LEFT), usual(LEFT), usual(RIGHT), usual(RIGHT)], [0]),
        # The only rank that differs did not record the call it would differ in.
        ([usual(LEFT), usual(LEFT), usual(RIGHT), usual(RIGHT)[:3], swapped(RIGHT)[:3]], []),
    ],
)
def test_ranks_that_call_two_groups_in_another_order(
    orders: list[list[tuple[int, int]]], culprits: list[int]
) -> None:
    calls = board(*orders)

    assert [int(calls.rank[row]) for row in find_misordered(calls)] == culprits


def test_the_first_call_out_of_order_is_named() -> None:
    calls = board(usual(LEFT), usual(LEFT), usual(RIGHT), swapped(RIGHT), usual(RIGHT))

    (row,) = find_misordered(calls)

    assert (calls.group[row], calls.seq[row]) == (RIGHT, 2)
