"""Calls that should be the same and are not: order, type or size, on the rank that differs from most."""

from __future__ import annotations

import pytest

from chakrakit.insight.diagnosis.hangs import CallDifference, find_differences
from support.boards import Call, board

ALL = [0, 1, 2, 3]
SUM, GATHER, LARGER, OTHER_TYPE = range(4)


def found(*signs: list[int], ranks: list[int] | None = None) -> list[CallDifference]:
    """Rank by rank the signatures of its calls."""
    calls = [
        Call(rank, seq, sign=sign, start=seq)
        for rank, mine in enumerate(signs)
        for seq, sign in enumerate(mine)
    ]
    return find_differences(board(calls, [ranks or list(range(len(signs)))]))


@pytest.mark.parametrize(
    ("odd", "what"), [(LARGER, "size"), (GATHER, "type"), (OTHER_TYPE, "type")]
)
def test_one_call_that_differs_says_in_what(odd: int, what: str) -> None:
    usual = [SUM, SUM, SUM]
    assert found(usual, usual, [SUM, odd, SUM], usual) == [CallDifference(what, 2, 7)]


def test_the_same_calls_in_another_order_are_a_matter_of_order() -> None:
    usual, swapped = [SUM, GATHER, LARGER], [GATHER, SUM, LARGER]
    assert found(usual, swapped, usual) == [CallDifference("order", 1, 3)]


def test_a_call_that_one_rank_left_out_shifts_all_after_it() -> None:
    usual = [SUM, GATHER, LARGER, SUM, SUM]
    assert found(usual, usual, usual[1:]) == [CallDifference("order", 2, 10)]


def test_one_against_one_is_settled_by_other_groups() -> None:
    calls = [
        Call(0, 1, sign=LARGER),
        Call(1, 1, sign=SUM),
        Call(2, 1, group=1, sign=SUM),
        Call(3, 1, group=1, sign=SUM),
    ]
    assert find_differences(board(calls, [[0, 1], [2, 3]])) == [CallDifference("size", 0, 0)]


def test_ranks_that_agree_and_boards_without_calls_have_none() -> None:
    assert found([SUM, GATHER], [SUM, GATHER]) == []
    assert find_differences(board([], [ALL])) == []
